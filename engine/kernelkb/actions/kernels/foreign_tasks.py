"""Checks and times a candidate for a task of another project; docs/tasks.md lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from kernelkb.actions.kernels.building import build_prepared
from kernelkb.actions.kernels.measure_variant import bench_prepared, make_untimed_bench
from kernelkb.actions.project.bench_target import (
    BenchTarget,
    get_project_path,
    prepare_loaded,
    require_machine,
    resolve_workload,
    validate_machine,
)
from kernelkb.adapters.flashinfer import convert_flashinfer
from kernelkb.adapters.kernelbench import convert_kernelbench_task
from kernelkb.adapters.robust_kbench import convert_robust_kbench, is_robust_kbench
from kernelkb.adapters.sol_execbench import find_definition
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import KernelFiles, KernelFolder, load_kernel_folder
from kernelkb.measure.candidate_policy import (
    check_candidate_source,
    find_library_only_reason,
)
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.profile.profile import list_launched_kernels
from kernelkb.measure.subject import BenchOptions
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import HiddenInputs, HiddenInputsOptions, StatedPrecision
from kernelkb.model.records.measurement import Bench

TASK_OPTIONS = BenchOptions(timeout_s=600.0)
"""Such candidates often compile with torch's own loader, which takes a minute."""


def bench_task(
    task: str,
    candidate: str,
    target: TargetChoice = "auto",
    workload: str | None = None,
    *,
    workloads: str | None = None,
    options: BenchOptions = TASK_OPTIONS,
    precision: StatedPrecision | None = None,
    skip_inputs: Sequence[str] = (),
) -> Bench:
    """Check and time a candidate, in a kernel folder written below ``.kb/tasks``.

    Args:
        task: A task's file or folder, as docs/tasks.md lists them.
        candidate: A file with ``ModelNew`` or ``forward``, or a solution (``.json``).
        target: ``auto`` takes CUDA where there is a GPU.
        workload: One of the definition's workloads; the first by default.
        workloads: A JSON Lines file of workloads; by default that of the definition's data set.
        options: How it is checked and timed.
        precision: Of a KernelBench task's fp32 products; None: as its file sets it.
        skip_inputs: Hidden inputs for which the task is not defined.

    Raises:
        BadValueError: A file has another format, or needs what the harness does not have.
        EnvironmentGapError: The machine lacks a compiler, torch or a GPU.
    """
    machine = require_machine(validate_machine(target))
    chosen, workload_file = machine.target, Path(workloads) if workloads else None
    with lock_device(machine):  # inspecting a KernelBench task runs it on the device
        files = make_task_files(Path(task), Path(candidate), workload_file, chosen, precision)
    place = prepare_loaded(_write_folder(files, skip_inputs), None, chosen)
    return bench_candidate(
        place,
        workload,
        files.warnings,
        lambda: bench_prepared(place, workload, options),
    )


def bench_candidate(
    place: BenchTarget,
    workload: str | None,
    task_warnings: Sequence[str],
    time_candidate: Callable[[], Bench],
) -> Bench:
    """Time a candidate that may be one by its source; add what speaks against it.

    Args:
        place: Its kernel folder.
        workload: The one to time; None for the default.
        task_warnings: Of the files that were made of the task.
        time_candidate: Checks and times it.
    """
    violations, doubts = check_source(place)
    if violations:
        return _reject(place, workload, violations[0])
    bench = time_candidate()
    doubts = doubts or _find_library_warnings(place, bench)
    return bench.model_copy(update={"warnings": (*bench.warnings, *task_warnings, *doubts)})


def _reject(place: BenchTarget, workload: str | None, violation: str) -> Bench:
    kernel = place.subject.kernel_folder.kernel
    name = resolve_workload(kernel, place.subject.variant.target, workload)
    cure = "remove that; a candidate must not fall back to the task's own model"
    return make_untimed_bench(place, name, "invalid", violation, cure, 0.0)


def _write_folder(files: KernelFiles, skip_inputs: Sequence[str]) -> KernelFolder:
    """Write and load a kernel folder; let its checks leave out some hidden inputs.

    Raises:
        BadValueError: There are no hidden inputs of such a name.
    """
    known = get_args(HiddenInputs)
    unknown = next((name for name in skip_inputs if name not in known), None)
    if unknown is not None:
        raise BadValueError(f"--skip-inputs {unknown} is unknown; one of {', '.join(known)}")
    folder = load_kernel_folder(files.write(get_project_path() / ".kb" / "tasks"))
    options = HiddenInputsOptions.model_validate(
        {"skip": tuple(skip_inputs), "reason": "--skip-inputs" if skip_inputs else ""}
    )
    return folder._replace(kernel=folder.kernel.model_copy(update={"hidden_inputs": options}))


def check_source(place: BenchTarget) -> tuple[list[str], list[str]]:
    """Return the violations of the candidate policy and the warnings, from the source text."""
    variant = place.subject.variant
    text = (place.subject.kernel_folder.folder / variant.source).read_text(encoding="utf-8")
    return ([], []) if variant.is_compiled else check_candidate_source(text)


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
    task: Path,
    candidate: Path,
    workloads: Path | None,
    target: Target,
    precision: StatedPrecision | None = None,
) -> KernelFiles:
    """Return a kernel folder's files for a task and a candidate; the files tell the project.

    Raises:
        BadValueError: They are of none of the projects, or a file has another format.
    """
    if is_robust_kbench(task):
        return convert_robust_kbench(task, candidate, target)
    kinds = (task.suffix, candidate.suffix)
    if kinds == (".py", ".py"):
        return convert_kernelbench_task(task, candidate, target, precision)
    definition = find_definition(task)
    if (definition.suffix, candidate.suffix) == (".json", ".json"):
        if precision is not None:
            raise BadValueError(f"{task.name} fixes its dtypes; leave --precision out")
        return convert_flashinfer(definition, candidate, workloads, target)
    raise BadValueError(
        f"{task.name} and {candidate.name} are no known pair; give two .py files (KernelBench), "
        f"two .json files (a definition and a solution), or see docs/tasks.md"
    )
