"""An editable install runs the checkout's own packages, and copies nothing."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHOW = "import kernelkb, kernelkb_mcp; print(kernelkb.__file__); print(kernelkb_mcp.__file__)"


def run(*command, cwd):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_editable_install_imports_the_checkout_and_copies_no_data(tmp_path):
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    (site_packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    borrowed = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    (site_packages / "zz_borrowed.pth").write_text("\n".join(borrowed) + "\n", "utf-8")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-qq"]
    run(*pip, "--no-deps", "--no-index", "--no-build-isolation", "-e", ROOT, cwd=tmp_path)

    assert run(python, "-P", "-c", SHOW, cwd=tmp_path).splitlines() == [
        str(ROOT / "engine/kernelkb/__init__.py"),
        str(ROOT / "mcp_server/kernelkb_mcp/__init__.py"),
    ]
    assert not list(site_packages.rglob("*.yaml"))
    assert "kb" in run(python.with_name("kb"), "--help", cwd=tmp_path)
