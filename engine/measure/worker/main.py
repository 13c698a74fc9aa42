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

from kernelkb.measure.worker.judge.procfs import become_subreaper
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import UnsupportedHost

Job = dict[str, Any]


def main(job_file: Path) -> None:
    """Do one job. The result appears whole, by a rename, or not at all."""
    _die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    job: Job = json.loads(job_file.read_text(encoding="utf-8"))
    folder = job_file.parent
    if job["mode"] in ("check", "time"):
        result = _run_judge(job, folder)
    else:
        result = _import_mode(job["mode"])(job, folder)
    scratch = job_file.with_name("result.tmp")
    scratch.write_text(json.dumps(result), encoding="utf-8")
    scratch.replace(job_file.with_name("result.json"))


def _run_judge(job: Job, folder: Path) -> Job:
    """Start the runners before anything here imports torch, so that all load it side by side."""
    become_subreaper()
    partners = {
        name: RunnerProcess(name, {**one, "turn": at}, folder)
        for at, (name, one) in enumerate(job["partners"].items())
    }
    try:
        from kernelkb.measure.worker.judge.check import check_cases
        from kernelkb.measure.worker.judge.paired_bench import run_paired_bench

        try:
            if job["mode"] == "check":
                return check_cases(job, folder, partners)
            return run_paired_bench(job, folder, partners)
        except UnsupportedHost as gap:
            return {"unfit": str(gap)}
    finally:
        for partner in partners.values():
            partner.close()


def _import_mode(name: str) -> Callable[[Job, Path], Job]:
    if name in ("light", "traffic"):
        from kernelkb.measure.worker.jobs import repeat_without_torch

        return (
            repeat_without_torch.repeat_without_torch
            if name == "light"
            else repeat_without_torch.run_known_traffic
        )
    from kernelkb.measure.worker.jobs import describe_task, probe, repeat, torch_profile
    from kernelkb.measure.worker.runner import serve

    modes: dict[str, Callable[[Job, Path], Job]] = {
        "describe": describe_task.describe_task,
        "probe": probe.probe_torch,
        "peaks": probe.measure_peaks,
        "repeat": repeat.repeat,
        "timeline": torch_profile.profile_with_torch,
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
