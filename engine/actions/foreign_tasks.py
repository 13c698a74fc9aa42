"""Candidates for other projects' tasks, judged as our own are."""

from __future__ import annotations

from pathlib import Path

from kernelkb.actions.bench_target import (
    BenchTarget,
    get_project_path,
    prepare_loaded,
    require_machine,
    resolve_workload,
    validate_machine,
)
from kernelkb.actions.building import build_prepared
from kernelkb.actions.built_variant import make_untimed_bench
from kernelkb.actions.kernels import bench_prepared
from kernelkb.errors import BadValueError
from kernelkb.loading.flashinfer import convert_flashinfer
from kernelkb.loading.kernel_files import KernelFiles
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.measure.bench import BUDGET_S
from kernelkb.measure.candidate_policy import check_candidate_source, find_library_only_reason
from kernelkb.measure.kernelbench import convert_kernelbench_task
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.profile import list_launched_kernels
from kernelkb.model.base import Target
from kernelkb.model.measurement import Bench

TASK_TIMEOUT_S = 600.0
"""Such candidates often compile with torch's own loader, which takes a minute."""


def bench_task(
    task: str,
    candidate: str,
    target: TargetChoice = "auto",
    workload: str | None = None,
    *,
    workloads: str | None = None,
    timeout_s: float = TASK_TIMEOUT_S,
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
    machine = require_machine(validate_machine(target))
    chosen, more = machine.target, Path(workloads) if workloads else None
    with lock_device(machine):  # a task's inputs are drawn where they are used
        files = make_task_files(Path(task), Path(candidate), more, chosen)
    folder = load_kernel_folder(files.write(get_project_path() / ".kb" / "tasks"))
    place = prepare_loaded(folder, None, chosen)
    wrong, doubtful = _check_source(place)
    if wrong:
        name = resolve_workload(place.subject.kernel_folder.kernel, chosen, workload)
        cure = "let the kernel fail where it fails; a candidate replaces the task's own model"
        return make_untimed_bench(place, name, "invalid", wrong[0], cure, 0.0)
    timed = bench_prepared(place, workload, timeout_s, budget_s)
    doubts = doubtful or _find_library_warnings(place, timed)
    warnings = (*timed.warnings, *files.warnings, *doubts)
    return timed.model_copy(update={"warnings": warnings})


def _check_source(place: BenchTarget) -> tuple[list[str], list[str]]:
    variant = place.subject.variant
    text = (place.subject.kernel_folder.folder / variant.source).read_text(encoding="utf-8")
    return check_candidate_source(text) if variant.language in ("python", "triton") else ([], [])


def _find_library_warnings(place: BenchTarget, timed: Bench) -> list[str]:
    """Look at the kernels of what is fast: text that mentions a kernel need not launch it."""
    if timed.verdict != "faster" or timed.target != "cuda":
        return []
    built = build_prepared(place)
    with lock_device(place.subject.machine):
        said = find_library_only_reason(list_launched_kernels(place.subject, built, timed.workload))
    return [said] if said else []


def make_task_files(
    task: Path, candidate: Path, workloads: Path | None, target: Target
) -> KernelFiles:
    """Return a kernel folder's files for a task and a candidate, whichever project's they are.

    Raises:
        BadValueError: A file is not what it should be.
    """
    kinds = (task.suffix, candidate.suffix)
    if kinds == (".py", ".py"):
        return convert_kernelbench_task(task, candidate, target)
    if kinds == (".json", ".json"):
        return convert_flashinfer(task, candidate, workloads, target)
    raise BadValueError(
        f"cannot tell what {task.name} and {candidate.name} are; give two .py files (KernelBench) "
        f"or two .json files (a definition and a solution of FlashInfer-Bench)"
    )
