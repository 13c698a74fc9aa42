"""The judge process: starts all runner processes, then checks or times the candidate."""

from __future__ import annotations

from pathlib import Path

from kernelkb.measure.worker.judge.procfs import become_subreaper
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import UnsupportedHost
from kernelkb.measure.worker.shared.messages.jobs import (
    BenchJobResult,
    CheckJobResult,
    JudgeJob,
)
from kernelkb.measure.worker.shared.quick_imports import import_quickly


def run_judge(job: JudgeJob, folder: Path) -> CheckJobResult | BenchJobResult:
    """Do a check or bench job, with one process for each of its runners.

    Args:
        job: What to do.
        folder: Scratch folder; each runner gets a folder of its own inside.
    """
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
