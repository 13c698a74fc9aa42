"""Judges many mutants in one process, with the product's own check; started by ``run.py``.

    python judge_worker.py JOBS.json

Each line that it prints is a result: the mutant's number, the report of the check, and for what
the check accepted what a direct comparison with the original found.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from benchmarks.mutants.equivalence import Answer
from benchmarks.mutants.fork_server import ForkServer

from kernelkb.measure.worker.judge.check_candidate import check_cases
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.messages.jobs import CheckJob, CheckReport
from kernelkb.measure.worker.shared.messages.specs import Code, RunnerSpec

_COMPARE_TIMEOUT_S = 90.0


def main() -> None:
    """Judge the mutants of a file."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    jobs = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    server = ForkServer()
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as scratch,
        Path(jobs["results"]).open("a") as out,
    ):
        for number, key, code in jobs["mutants"]:
            folder = Path(scratch) / str(number)
            folder.mkdir()
            result = _judge_one(server, jobs["kernels"][key], code, folder)
            out.write(json.dumps({"number": number, **result}) + "\n")
            out.flush()
            shutil.rmtree(folder, ignore_errors=True)


def _judge_one(
    server: ForkServer, kernel: dict[str, Any], code: Code, folder: Path
) -> dict[str, Any]:
    job: CheckJob = kernel["job"]
    spec: RunnerSpec = {**job["runners"]["candidate"], "code": code, "sandbox_command": []}
    started = time.monotonic()
    report = _check(server, {**job, "runners": {"candidate": spec}}, folder)
    seconds = time.monotonic() - started
    accepted = report["runner_died"] is None and all(
        case["correct"] and not case["kernel_error"] and not case["tampering"]
        for case in report["cases"]
    )
    answer = _compare(server, kernel, code, folder) if accepted else None
    return {"report": report, "seconds": seconds, "accepted": accepted, "answer": answer}


def _check(server: ForkServer, job: CheckJob, folder: Path) -> CheckReport:
    runners = {
        name: RunnerProcess(name, spec, job["target"], folder, server.start_runner)
        for name, spec in job["runners"].items()
    }
    try:
        return check_cases(job, folder, runners)
    finally:
        for runner in runners.values():
            runner.close()


def _compare(server: ForkServer, kernel: dict[str, Any], code: Code, folder: Path) -> Answer | None:
    """Compare with the original in a process of its own; None where that crashed or hung."""
    request = {
        "folder": str(folder),
        "compare": {
            "target": kernel["job"]["target"],
            "reference": kernel["job"]["reference"],
            "cases": kernel["cases"],
            "own_cases": len(kernel["job"]["cases"]),
            "original": kernel["original"],
            "mutant": code,
        },
    }
    with (folder / "compare.log").open("wb") as log:
        process = server.start(request, log.fileno())
    end = time.monotonic() + _COMPARE_TIMEOUT_S
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    if process.poll() is None:
        process.kill()
    file = folder / "answer.json"
    if not file.exists():
        return None
    answer: Answer = json.loads(file.read_text(encoding="utf-8"))
    return answer


if __name__ == "__main__":
    main()
