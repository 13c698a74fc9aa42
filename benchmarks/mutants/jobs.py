"""Makes the jobs of the judging processes: the product's own check of each base kernel."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.mutants.build import Built
from benchmarks.mutants.equivalence_sizes import list_cases
from benchmarks.mutants.plan import load_kernels

from kernelkb.actions.project.bench_target import prepare_loaded
from kernelkb.measure.check import check
from kernelkb.measure.process.worker_jobs import worker_python
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.specs import Code
from kernelkb.model.base import Target
from kernelkb.model.records.measurement import Build

_REPOSITORY = Path(__file__).resolve().parents[2]
_TIMEOUT_S: dict[Target, float] = {"cpu": 4.0, "cuda": 40.0}
"""For a mutant, all cases together; with Triton, compiling them is part of it."""


class Judged(NamedTuple):
    """What the check said of a mutant, and what a direct comparison said."""

    number: int
    status: str
    """As ``kb check`` reports it: ``correct``, ``incorrect``, ``crashed`` and so on."""
    detail: str | None
    seconds: float
    answer: dict[str, Any] | None
    """See ``equivalence.Answer``; None: not compared, or the mutant crashed or hung there."""


def prepare_subjects(target: Target) -> dict[str, MeasurementSubject]:
    """Return every variant of a target as ``kb check`` prepares it, by ``kernel/variant``."""
    return {
        f"{name}/{variant.id}": prepare_loaded(found, variant.id, target).subject
        for name, found in load_kernels().items()
        for variant in found.kernel.variants
        if variant.target == target
    }


def describe_kernels(
    subjects: dict[str, MeasurementSubject], originals: dict[str, Code], folder: Path
) -> dict[str, Any]:
    """Return for each variant the job of its check, its original, and cases to compare on."""
    return {
        key: {
            "job": _make_check_job(subject, folder),
            "cases": list_cases(subject.kernel_folder),
            "original": originals[key],
        }
        for key, subject in subjects.items()
    }


def _make_check_job(subject: MeasurementSubject, folder: Path) -> dict[str, Any]:
    variant, kernel = subject.variant, subject.kernel_folder.kernel
    build = Build(
        kernel=kernel.id, variant=variant.id, target=variant.target, status="built", seconds=0.0,
        library=str(folder / "kernel.so"), directory=str(folder), command="",
    )  # fmt: skip
    workload = kernel.default_workload[variant.target]
    timeout_s = _TIMEOUT_S[variant.target]
    return dict(check.make_check_job(subject, build, [workload], timeout_s))


def judge_mutants(
    kernels: dict[str, Any],
    built: Sequence[tuple[int, Built]],
    folder: Path,
    workers: int,
) -> list[subprocess.Popen[bytes]]:
    """Start the judging processes; each writes a line for each mutant to a file of its own."""
    loadable = [(n, _key(one), one.code) for n, one in built if one.code is not None]
    processes = []
    for worker in range(workers):
        share = loadable[worker::workers]
        jobs = {
            "kernels": {key: kernels[key] for key in {key for _, key, _ in share}},
            "mutants": share,
            "results": str(folder / f"results_{worker}.jsonl"),
        }
        file = folder / f"jobs_{worker}.json"
        file.write_text(json.dumps(jobs), encoding="utf-8")
        processes.append(_start_worker(file))
    return processes


def _key(built: Built) -> str:
    return f"{built.mutant.kernel}/{built.mutant.variant}"


def _start_worker(file: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{_REPOSITORY}:{_REPOSITORY / 'src'}",
    }
    script = str(Path(__file__).with_name("judge_worker.py"))
    argv = [worker_python(), "-W", "ignore", script, str(file)]
    with file.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            argv, env=environment, stdout=log, stderr=log, start_new_session=True
        )


def read_results(
    folder: Path, subjects: dict[str, MeasurementSubject], built: dict[int, Built]
) -> list[Judged]:
    """Return what has been judged so far."""
    judged = []
    for file in sorted(folder.glob("results_*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            subject = subjects[_key(built[found["number"]])]
            fields = check._make_check_fields(subject, found["report"])
            judged.append(
                Judged(
                    found["number"],
                    fields["status"],
                    fields["detail"],
                    found["seconds"],
                    found["answer"],
                )
            )
    return judged


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End judging processes and what they started."""
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()
