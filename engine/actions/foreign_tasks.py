"""Candidates for other projects' tasks, judged as our own are."""

from __future__ import annotations

from pathlib import Path

from kernelkb.actions.bench_target import (
    Workplace,
    environment,
    prepared,
    project,
    required,
    workload_of,
)
from kernelkb.actions.building import build_here
from kernelkb.actions.kernels import bench_place, untimed
from kernelkb.errors import BadValueError
from kernelkb.loading.flashinfer import from_flashinfer
from kernelkb.loading.kernel_files import KernelFiles
from kernelkb.loading.kernels import load_folder
from kernelkb.measure.bench import BUDGET_S
from kernelkb.measure.candidate_policy import complaints, only_libraries
from kernelkb.measure.kernelbench import from_kernelbench
from kernelkb.measure.machine.device_lock import turn_on
from kernelkb.measure.machine.environment import Wanted
from kernelkb.measure.profile import launched
from kernelkb.model.base import Target
from kernelkb.model.measurement import Bench

TIMEOUT_S = 600.0
"""Such candidates often compile with torch's own loader, which takes a minute."""


def bench_task(
    task: str,
    candidate: str,
    target: Wanted = "auto",
    workload: str | None = None,
    *,
    workloads: str | None = None,
    timeout_s: float = TIMEOUT_S,
    budget_s: float = BUDGET_S,
) -> Bench:
    """Check and time a candidate for a task of KernelBench or of FlashInfer-Bench.

    Args:
        task: A KernelBench task (``.py``), or a FlashInfer-Bench definition (``.json``).
        candidate: A file with ``ModelNew``, or a solution (``.json``).
        target: ``auto`` takes CUDA where there is a GPU.
        workload: One of the definition's workloads; the first by default.
        workloads: A JSON Lines file of workloads; the project's own by default.
        timeout_s: For the check, and for the bench.
        budget_s: How long to take times.

    Raises:
        BadValueError: A file is not what it should be.
        EnvironmentGapError: The machine lacks something.
    """
    machine = required(environment(target))
    chosen, more = machine.target, Path(workloads) if workloads else None
    with turn_on(machine):  # a task's inputs are drawn where they are used
        files = task_files(Path(task), Path(candidate), more, chosen)
    place = prepared(load_folder(files.written(project() / ".kb" / "tasks")), None, chosen)
    variant = place.subject.variant
    text = (place.subject.source.folder / variant.source).read_text(encoding="utf-8")
    wrong, doubtful = complaints(text) if variant.language in ("python", "triton") else ([], [])
    if wrong:
        name = workload_of(place.subject.source.kernel, chosen, workload)
        cure = "let the kernel fail where it fails; a candidate replaces the task's own model"
        return untimed(place, name, "invalid", wrong[0], cure, 0.0)
    timed = bench_place(place, workload, timeout_s, budget_s)
    warnings = (*timed.warnings, *files.warnings, *(doubtful or _launched(place, timed)))
    return timed.model_copy(update={"warnings": warnings})


def _launched(place: Workplace, timed: Bench) -> list[str]:
    """Look at the kernels of what is fast: text that mentions a kernel need not launch it."""
    if timed.verdict != "faster" or timed.target != "cuda":
        return []
    built = build_here(place)
    with turn_on(place.subject.machine):
        said = only_libraries(launched(place.subject, built, timed.workload))
    return [said] if said else []


def task_files(task: Path, candidate: Path, workloads: Path | None, target: Target) -> KernelFiles:
    """Return a kernel folder's files for a task and a candidate, whichever project's they are.

    Raises:
        BadValueError: A file is not what it should be.
    """
    kinds = (task.suffix, candidate.suffix)
    if kinds == (".py", ".py"):
        return from_kernelbench(task, candidate, target)
    if kinds == (".json", ".json"):
        return from_flashinfer(task, candidate, workloads, target)
    raise BadValueError(
        f"cannot tell what {task.name} and {candidate.name} are; give two .py files (KernelBench) "
        f"or two .json files (a definition and a solution of FlashInfer-Bench)"
    )
