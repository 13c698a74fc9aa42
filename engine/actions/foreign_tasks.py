"""Checks and times a candidate for a KernelBench task or a FlashInfer-Bench definition."""

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
from kernelkb.measure.candidate_policy import check_candidate_source, find_library_only_reason
from kernelkb.measure.kernelbench import convert_kernelbench_task
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.profile import list_launched_kernels
from kernelkb.model.base import Target
from kernelkb.model.measurement import Bench

TASK_TIMEOUT_S = 600.0
"""Seconds. Such candidates often compile with torch's own loader, which takes a minute."""


def bench_task(
    task: str,
    candidate: str,
    target: TargetChoice = "auto",
    workload: str | None = None,
    *,
    workloads: str | None = None,
    timeout_s: float = TASK_TIMEOUT_S,
    budget_s: float | None = None,
) -> Bench:
    """Check and time a candidate, in a kernel folder written below ``.kb/tasks``.

    Args:
        task: A KernelBench task (``.py``), or a FlashInfer-Bench definition (``.json``).
        candidate: A file with ``ModelNew``, or a solution (``.json``).
        target: ``auto`` takes CUDA where there is a GPU.
        workload: One of the definition's workloads; the first by default.
        workloads: A JSON Lines file of workloads; by default that of the definition's data set.
        timeout_s: Limit for the check and for the bench, in seconds each.
        budget_s: Seconds of timing; None: the default of ``kernelkb.measure.bench``.

    Raises:
        BadValueError: A file has another format, or needs what the harness does not have.
        EnvironmentGapError: The machine lacks a compiler, torch or a GPU.
    """
    machine = require_machine(validate_machine(target))
    chosen, workload_file = machine.target, Path(workloads) if workloads else None
    with lock_device(machine):  # inspecting a KernelBench task runs it on the device
        files = make_task_files(Path(task), Path(candidate), workload_file, chosen)
    folder = load_kernel_folder(files.write(get_project_path() / ".kb" / "tasks"))
    place = prepare_loaded(folder, None, chosen)
    violations, doubts = _check_source(place)
    if violations:
        name = resolve_workload(place.subject.kernel_folder.kernel, chosen, workload)
        cure = "remove that; a candidate must not fall back to the task's own model"
        return make_untimed_bench(place, name, "invalid", violations[0], cure, 0.0)
    bench = bench_prepared(place, workload, timeout_s, budget_s)
    doubts = doubts or _find_library_warnings(place, bench)
    warnings = (*bench.warnings, *files.warnings, *doubts)
    return bench.model_copy(update={"warnings": warnings})


def _check_source(place: BenchTarget) -> tuple[list[str], list[str]]:
    """Return the violations of the candidate policy and the warnings, from the source text."""
    variant = place.subject.variant
    text = (place.subject.kernel_folder.folder / variant.source).read_text(encoding="utf-8")
    return check_candidate_source(text) if variant.language in ("python", "triton") else ([], [])


def _find_library_warnings(place: BenchTarget, bench: Bench) -> list[str]:
    """Warn where a faster candidate launches library kernels only, as a profiler sees them."""
    if bench.verdict != "faster" or bench.target != "cuda":
        return []
    built = build_prepared(place)
    with lock_device(place.subject.machine):
        kernels = list_launched_kernels(place.subject, built, bench.workload)
    reason = find_library_only_reason(kernels)
    return [reason] if reason else []


def make_task_files(
    task: Path, candidate: Path, workloads: Path | None, target: Target
) -> KernelFiles:
    """Return a kernel folder's files for a task and a candidate; the suffixes tell the project.

    Raises:
        BadValueError: The suffixes are of neither project, or a file has another format.
    """
    kinds = (task.suffix, candidate.suffix)
    if kinds == (".py", ".py"):
        return convert_kernelbench_task(task, candidate, target)
    if kinds == (".json", ".json"):
        return convert_flashinfer(task, candidate, workloads, target)
    raise BadValueError(
        f"{task.name} and {candidate.name} are no known pair; give two .py files (KernelBench) "
        f"or two .json files (a definition and a solution of FlashInfer-Bench)"
    )
