"""Checks and times a candidate for a task of another project; docs/tasks.md lists them."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from kernelkb.actions.kernels.measure_variant import (
    bench_prepared,
    build_prepared,
    make_untimed_bench,
)
from kernelkb.actions.project.bench_target import (
    BenchTarget,
    get_project_path,
    prepare_loaded,
    require_machine,
    resolve_workload,
    validate_machine,
)
from kernelkb.adapters.compute_eval import (
    Workspace,
    open_workspace,
    parse_reported_ms,
    read_candidate,
    read_problem,
)
from kernelkb.adapters.flashinfer import convert_flashinfer, find_definition
from kernelkb.adapters.kernelbench import convert_kernelbench_task
from kernelkb.adapters.robust_kbench import convert_robust_kbench, is_robust_kbench
from kernelkb.errors import BadValueError, EnvironmentGapError
from kernelkb.loading.kernels import KernelFiles, KernelFolder, load_kernel_folder
from kernelkb.measure.candidate_policy import (
    check_candidate_source,
    find_library_only_reason,
)
from kernelkb.measure.machine.environment import TargetChoice, lock_device
from kernelkb.measure.machine.host import find_nvcc, query_version
from kernelkb.measure.profile.profile import list_launched_kernels
from kernelkb.measure.subject import BenchOptions
from kernelkb.model.base import Target
from kernelkb.model.kernels.foreign import ComputeEvalProblem, ProblemResult, SourceFile
from kernelkb.model.kernels.kernel import HiddenInputs, HiddenInputsOptions, StatedPrecision
from kernelkb.model.records.measurement import Bench, Machine
from kernelkb.safety.untrusted_text import to_one_line

TASK_OPTIONS = BenchOptions(timeout_s=600.0)
"""Such candidates often compile with torch's own loader, which takes a minute."""

_RUN_COUNT = 3
"""Runs of each benchmark, candidate and baseline in turn."""
_SHARED_PROCESS = (
    "the candidate shares a process with the test, so it could end the test with status 0: "
    "read it before you trust this"
)
_OWN_TIMER = "times are by the problem's own timer, which the candidate could change: no verdict"


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
    kernel = place.subject.kernel
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


def check_problem(task: str, candidate: str, target: TargetChoice = "auto") -> ProblemResult:
    """Build a candidate with a problem's test, run the test, and its benchmark where it passes.

    Args:
        task: A folder with ``problem-spec.yaml``, a JSON Lines file or a release archive; ``#ID``
            at its end selects one of several problems.
        candidate: A solution (``.json``), a folder of its files, or its one source file.
        target: ``auto`` takes CUDA where there is a GPU.

    Raises:
        BadValueError: A file has another format.
        EnvironmentGapError: The machine lacks a compiler, or its GPU or toolkit is too old.
    """
    started = time.monotonic()
    problem = read_problem(task)
    files = read_candidate(Path(candidate), problem)
    machine = require_machine(validate_machine(target))
    _require_toolkit(problem)
    uses_gpu = machine.target == "cuda"
    common: dict[str, Any] = {"problem": problem.task_id, "candidate": Path(candidate).name}
    absent = _find_absent_reference(problem, files)
    if absent:
        fields: dict[str, Any] = {"status": "failed", "detail": absent, "cure": "use what it names"}
    else:
        with open_workspace(problem, files, uses_gpu=uses_gpu) as workspace:
            fields = _build_and_test(workspace, machine)
    return ProblemResult(**common, **fields, seconds=time.monotonic() - started)


def _build_and_test(workspace: Workspace, machine: Machine) -> dict[str, Any]:
    """Return the fields of the result."""
    problem = workspace.problem
    error = workspace.build()
    if error:
        detail = f"the compiler said: {to_one_line(error)}"
        return {"status": "not-built", "detail": detail, "cure": "fix the first error, build again"}
    gap = _find_gpu_gap(problem, machine)
    if gap:
        cure = "run this on a machine that has one"
        return {"status": "built", "detail": f"it builds; its test needs {gap}", "cure": cure}
    with lock_device(machine):
        end = workspace.run(problem.test_command)
        fields: dict[str, Any] = {"layers": workspace.read_layers()}
        if end.timed_out or end.returncode:
            last = to_one_line("\n".join(end.output.strip().splitlines()[-2:])) or "no output"
            limit = f"its test took longer than {end.seconds:.0f} s"
            detail = f"its test ended with status {end.returncode}: {last}"
            status = "timed-out" if end.timed_out else "failed"
            cure = "run the problem's test command by hand to see all of its output"
            detail = limit if end.timed_out else detail
            return {**fields, "status": status, "detail": detail, "cure": cure}
        times, notes = _run_benchmarks(workspace)
    fields |= {"status": "passed", "detail": "its test ended with status 0", **times}
    return {**fields, "warnings": (_SHARED_PROCESS, *notes)}


def _run_benchmarks(workspace: Workspace) -> tuple[dict[str, float], list[str]]:
    """Return the times that candidate and baseline report, and what has to be said of them."""
    problem = workspace.problem
    if problem.benchmark_command is None:
        return {}, []
    kind = problem.timing_mode.type
    if kind != "custom":
        return {}, [
            f"not timed: its timing mode {kind} needs a profiler around the whole program; "
            f"kb init makes a folder of the kernel alone, which kb bench times"
        ]
    if problem.baseline_solution is None:
        return _measure([workspace])
    files = problem.baseline_solution.files
    with open_workspace(problem, files, uses_gpu=workspace.uses_gpu) as baseline:
        error = baseline.build()
        if error:
            times, notes = _measure([workspace])
            return times, [*notes, f"the problem's baseline does not build: {to_one_line(error)}"]
        return _measure([workspace, baseline])


def _measure(workspaces: Sequence[Workspace]) -> tuple[dict[str, float], list[str]]:
    """Run the benchmark in the candidate's workspace and the baseline's, in turn."""
    names = ("candidate", "baseline")
    reported: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(_RUN_COUNT):
        for name, workspace in zip(names, workspaces, strict=False):
            end = workspace.run(workspace.problem.benchmark_command or "")
            value = parse_reported_ms(end.output)
            if end.timed_out or end.returncode or value is None:
                why = "was stopped at its time limit" if end.timed_out else "reported no time"
                return {}, [f"not timed: the benchmark of the {name} {why}"]
            reported[name].append(value)
    times = {f"{name}_ms": statistics.median(rows) for name, rows in reported.items() if rows}
    return times, [_OWN_TIMER]


def _find_gpu_gap(problem: ComputeEvalProblem, machine: Machine) -> str | None:
    """Return the GPU that the problem's test needs and this machine lacks."""
    if problem.compute_capability is None:
        return None
    needed = f"a GPU of compute capability {problem.compute_capability}"
    if machine.cc is None:
        return needed
    return needed if _to_numbers(machine.cc) < _to_numbers(problem.compute_capability) else None


def _require_toolkit(problem: ComputeEvalProblem) -> None:
    command = problem.build_command or ""
    if not re.search(r"\bnvcc\b", command):
        return
    nvcc = find_nvcc()
    if nvcc is None:
        raise EnvironmentGapError(f"{problem.task_id} is built by nvcc, which was not found", None)
    release = re.search(r"\d+\.\d+", query_version(nvcc))
    needed = problem.min_cuda_toolkit
    if needed and release and _to_numbers(release[0]) < _to_numbers(needed):
        gap = f"{problem.task_id} needs CUDA {needed}, and nvcc is {release[0]}"
        raise EnvironmentGapError(gap, f"install CUDA {needed} or later")


def _to_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", version))


def _find_absent_reference(problem: ComputeEvalProblem, files: Sequence[SourceFile]) -> str | None:
    """Return which name the problem demands and the candidate's code, without comments, lacks."""
    if problem.source_references is None:
        return None
    comments = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
    text = "\n".join(comments.sub(" ", file.content) for file in files)
    every, some = problem.source_references.all or (), problem.source_references.any or ()
    absent = [name for name in every if name not in text]
    if absent:
        return f"it does not use {absent[0]}, which the problem demands"
    if some and not any(name in text for name in some):
        return f"it uses none of {', '.join(some)}, of which the problem demands one"
    return None
