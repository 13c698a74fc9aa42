"""Entry point of a worker process: reads job.json, does the job, writes result.json beside it.

Each mode imports its own modules and no others: the process that a candidate's code runs in
("serve") never loads the judge's.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from kernelkb.measure.worker import import_quickly
from kernelkb.measure.worker.shared.failures import UnsupportedHost
from kernelkb.measure.worker.shared.messages.jobs import (
    BenchJobResult,
    CheckJobResult,
    JudgeJob,
    RepeatResult,
    RepeatSeveralJob,
)

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PROFILED_MODES = frozenset({"repeat", "repeat-without-torch", "repeat-several", "known-traffic"})
"""Of processes that ncu may run: it writes its report when they end in the ordinary way."""


def main(job_file: Path) -> None:
    """Do one job. The result appears complete, by a rename, or not at all."""
    _die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    job = json.loads(job_file.read_text(encoding="utf-8"))
    with import_quickly():
        do_job = _import_mode(job["mode"])
    result = do_job(job, job_file.parent)
    scratch = job_file.with_name("result.tmp")
    scratch.write_text(json.dumps(result), encoding="utf-8")
    scratch.replace(job_file.with_name("result.json"))
    if job["mode"] not in _PROFILED_MODES:
        _end_at_once()


def _import_mode(mode: str) -> Callable[[Any, Path], Any]:
    """Return the function that does jobs of a mode; imports its module only."""
    if mode == "serve":
        from kernelkb.measure.worker.runner.serve import serve

        return serve
    if mode in ("check", "bench"):
        return run_judge
    if mode == "repeat-without-torch":
        from kernelkb.measure.worker.jobs.repeat_without_torch import repeat_without_torch

        return repeat_without_torch
    if mode == "repeat-several":
        return repeat_several
    if mode == "known-traffic":
        from kernelkb.measure.worker.jobs.repeat_without_torch import run_known_traffic

        return run_known_traffic
    if mode == "trials":
        from kernelkb.measure.worker.jobs.trials import serve_trials

        return serve_trials
    from kernelkb.measure.worker.jobs import describe_task, probe, repeat

    modes: dict[str, Callable[[Any, Path], Any]] = {
        "describe": describe_task.describe_task,
        "probe": probe.probe_torch,
        "peaks": probe.measure_peaks,
        "repeat": repeat.repeat,
        "replay": repeat.replay,
        "torch-profile": repeat.profile_with_torch,
        "clocks": repeat.read_clocks,
    }
    return modes[mode]


def run_judge(job: JudgeJob, folder: Path) -> CheckJobResult | BenchJobResult:
    """Do a check or bench job as the judge, with one process for each of its runners.

    Args:
        job: What to do.
        folder: Scratch folder; each runner gets a folder of its own inside.
    """
    from kernelkb.measure.worker.judge.procfs import become_subreaper
    from kernelkb.measure.worker.judge.runner_process import RunnerProcess

    become_subreaper()
    runners = {
        name: RunnerProcess(name, spec, job["target"], folder)
        for name, spec in job["runners"].items()
    }
    try:
        # torch takes seconds to import: the runners, started by now, import it at the same time.
        with import_quickly():
            from kernelkb.measure.worker.judge.check_candidate import check_cases
            from kernelkb.measure.worker.judge.timing.time_candidate import time_candidate

        try:
            if job["mode"] == "check":
                return {"report": check_cases(job, folder, runners)}
            return time_candidate(job, folder, runners)
        except UnsupportedHost as problem:
            return {"unsupported_host": problem.to_message()}
    finally:
        for runner in runners.values():
            runner.close()


def repeat_several(job: RepeatSeveralJob, folder: Path) -> RepeatResult:
    """Call each job's function, in order; torch is imported where a job needs it."""
    results = [_import_mode(one["mode"])(one, folder) for one in job["jobs"]]
    return {"call_count": sum(result["call_count"] for result in results)}


def _end_at_once() -> NoReturn:
    """End without taking all modules apart: 0.7 s where torch was imported."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(0)


def _die_with_parent() -> None:
    """Have Linux kill this process when its parent ends, however that ends."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)
