"""Starts all runner processes, then checks or times: the judge process from start to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernelkb.measure.worker.judge.procfs import become_subreaper
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import UnsupportedHost

Job = dict[str, Any]


def run_judge(job: Job, folder: Path) -> Job:
    """Do a check or bench job, with one runner process for each of its runners."""
    become_subreaper()
    runners = {
        name: RunnerProcess(name, {**spec, "turn": index}, folder)
        for index, (name, spec) in enumerate(job["partners"].items())
    }
    try:
        # torch takes seconds to import: the runners, which are started by now, do so meanwhile.
        from kernelkb.measure.worker.judge.check import check_cases
        from kernelkb.measure.worker.judge.paired_bench import run_paired_bench

        try:
            if job["mode"] == "check":
                return check_cases(job, folder, runners)
            return run_paired_bench(job, folder, runners)
        except UnsupportedHost as gap:
            return {"unfit": str(gap)}
    finally:
        for runner in runners.values():
            runner.close()
