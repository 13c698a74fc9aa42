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

from kernelkb.measure.worker.judge.procfs import adopt_orphans
from kernelkb.measure.worker.judge.runner_process import Partner
from kernelkb.measure.worker.shared.failures import Unfit

Job = dict[str, Any]


def main(job_file: Path) -> None:
    """Do one job. The result appears whole, by a rename, or not at all."""
    _die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    job: Job = json.loads(job_file.read_text(encoding="utf-8"))
    folder = job_file.parent
    if job["mode"] in ("check", "time"):
        result = _judged(job, folder)
    else:
        result = _mode(job["mode"])(job, folder)
    scratch = job_file.with_name("result.tmp")
    scratch.write_text(json.dumps(result), encoding="utf-8")
    scratch.replace(job_file.with_name("result.json"))


def _judged(job: Job, folder: Path) -> Job:
    """Start the runners before anything here imports torch, so that all load it side by side."""
    adopt_orphans()
    partners = {
        name: Partner(name, {**one, "turn": at}, folder)
        for at, (name, one) in enumerate(job["partners"].items())
    }
    try:
        from kernelkb.measure.worker.judge.check import check
        from kernelkb.measure.worker.judge.paired_bench import measure

        try:
            if job["mode"] == "check":
                return check(job, folder, partners)
            return measure(job, folder, partners)
        except Unfit as gap:
            return {"unfit": str(gap)}
    finally:
        for partner in partners.values():
            partner.close()


def _mode(name: str) -> Callable[[Job, Path], Job]:
    if name in ("light", "traffic"):
        from kernelkb.measure.worker.jobs import repeat_without_torch

        return repeat_without_torch.repeat if name == "light" else repeat_without_torch.traffic
    from kernelkb.measure.worker.jobs import describe_task, probe, repeat, torch_profile
    from kernelkb.measure.worker.runner import serve

    modes: dict[str, Callable[[Job, Path], Job]] = {
        "describe": describe_task.describe,
        "probe": probe.probe,
        "peaks": probe.peaks,
        "repeat": repeat.repeat,
        "timeline": torch_profile.timeline,
        "serve": serve.serve,
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
