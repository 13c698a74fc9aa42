"""Read the job, do it, write the result beside it."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = dict[str, Any]


def main(job_file: Path) -> None:
    """Do one job. The result appears whole, by a rename, or not at all."""
    _die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    job: Job = json.loads(job_file.read_text(encoding="utf-8"))
    result = _mode(job["mode"])(job, job_file.parent)
    scratch = job_file.with_name("result.tmp")
    scratch.write_text(json.dumps(result), encoding="utf-8")
    scratch.replace(job_file.with_name("result.json"))


def _mode(name: str) -> Callable[[Job, Path], Job]:
    from engine.measure.worker import execute, judge, probe, timing

    modes: dict[str, Callable[[Job, Path], Job]] = {
        "probe": probe.probe,
        "peaks": probe.peaks,
        "execute": execute.execute,
        "repeat": execute.repeat,
        "judge": judge.judge,
        "time": timing.measure,
    }
    return modes[name]


def _die_with_parent() -> None:
    """Ask Linux to end this process with the one that started it, however that ends."""
    libc = ctypes.CDLL(None)
    set_parent_death_signal = 1
    if hasattr(libc, "prctl"):
        libc.prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)
