"""Which layers of isolation this kernel of Linux offers."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

_SANDBOX_SCRIPT = Path(__file__).with_name("candidate_sandbox.py")
LAYERS = ("limits", "network namespace", "landlock", "seccomp")
_DETECTION_TIMEOUT_S = 20.0


def detect_layers() -> tuple[list[str], list[str]]:
    """Confine a program that does nothing; return the layers that held, and those absent."""
    with tempfile.TemporaryDirectory(prefix="kernelkb-") as folder:
        policy = {"folder": folder, "writable": [], "fork": False, "file_bytes": 2**20}
        argv = [sys.executable, "-P", str(_SANDBOX_SCRIPT), json.dumps({**policy, "families": []})]
        try:
            subprocess.run(
                [*argv, "/bin/true"], capture_output=True, check=False, timeout=_DETECTION_TIMEOUT_S
            )
            active = json.loads((Path(folder) / "layers.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, subprocess.TimeoutExpired):
            active = []
    return active, [layer for layer in LAYERS if layer not in active]
