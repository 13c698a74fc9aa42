"""Chooses what ``kb lab sweep`` judges: variants of kernels, or tasks with their candidates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.adapters.kernelbench import find_hidden_tests
from kernelkb.adapters.task_files import read_task_text
from kernelkb.cluster.project_copy import PackedKernel, pack_kernel
from kernelkb.errors import BadValueError, EnvironmentGapError, KbError
from kernelkb.loading.kernels import (
    KernelFolder,
    find_kernel_folders,
    load_kernel,
    load_kernel_folder,
)
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import Kernel, Variant

_TASK_WORDS = ("class Model", "def get_inputs")


class SweepRequest(NamedTuple):
    """What to judge, and how."""

    kernels: Sequence[str] = ()
    """Names; none: all of the project."""
    folder: Path | None = None
    """Judge the kernels below it instead."""
    tasks: Path | None = None
    """Judge the KernelBench problems in it instead."""
    candidates: Path | None = None
    """Of the tasks."""
    check_only: bool = False
    variant: str | None = None
    """An id, ``all``, or None for the first of the target."""
    target: TargetChoice = "auto"
    """``auto``: CUDA where a lane has a GPU and the kernel a CUDA variant."""
    workload: str | None = None
    """None: the target's default."""
    timeout_s: float | None = None
    """Of the check, and of the bench; None: as of ``kb bench``."""
    budget_s: float | None = None
    """Time for the timed batches of each; None: the default of ``kernelkb.measure.bench.bench``."""


class SweepJob(NamedTuple):
    """One variant, or one task with its candidate, as a worker gets it."""

    name: str
    """The kernel's id, or the name of the task's file without its ending."""
    variant: str
    target: Target
    workload: str | None
    check_only: bool
    timeout_s: float | None
    budget_s: float | None
    session: str | None = None
    """The open session of the project, if it is for this kernel."""
    candidate: str | None = None
    """Path of the candidate in the copy, where the name is that of a task."""


class PlannedJob(NamedTuple):
    """A job, and what belongs to it on the client."""

    job: SweepJob
    packed: PackedKernel
    source: KernelFolder | None
    """None for a task: its folder is written when it is judged."""
    is_compiled: bool


class SweepPlan(NamedTuple):
    """All jobs, and what there is no job for."""

    jobs: tuple[PlannedJob, ...]
    left_out: dict[str, str]
    """Name and reason; no failure."""
    broken: dict[str, str]
    """Kernels that cannot be loaded or sent, and why."""


def plan_sweep(request: SweepRequest, project: Path, *, has_gpu: bool) -> SweepPlan:
    """Choose what to judge.

    Args:
        request: What the user wants.
        project: Its root.
        has_gpu: Whether a lane has a GPU.

    Raises:
        UnknownNameError: A kernel that was named does not exist.
        BadValueError: There is nothing to judge.
        EnvironmentGapError: CUDA was asked for, and no lane has a GPU.
    """
    if request.target == "cuda" and not has_gpu:
        raise EnvironmentGapError("no worker has a GPU", "start workers on hosts with GPUs")
    plan = SweepPlan((), {}, {})
    if request.tasks is not None:
        plan = _plan_tasks(request, request.tasks, has_gpu=has_gpu)
    else:
        jobs: list[PlannedJob] = []
        for name, loaded in _load_kernels(request, project):
            try:
                source = loaded if isinstance(loaded, KernelFolder) else load_kernel_folder(loaded)
                chosen = _choose_variants(request, source.kernel, has_gpu=has_gpu)
                if isinstance(chosen, str):
                    plan.left_out[name] = chosen
                    continue
                packed = pack_kernel(source, project)
            except (KbError, OSError) as error:
                plan.broken[name] = str(error)
                continue
            jobs += [_make_job(request, source, packed, one) for one in chosen]
        plan = plan._replace(jobs=tuple(jobs))
    if not (plan.jobs or plan.broken):
        why = "; ".join(f"{name}: {reason}" for name, reason in list(plan.left_out.items())[:4])
        raise BadValueError(f"there is nothing to judge ({why or 'no kernels'})")
    return plan


def _load_kernels(
    request: SweepRequest, project: Path
) -> Iterator[tuple[str, KernelFolder | Path]]:
    """Yield the name of each kernel, and what was loaded of it or has to be."""
    if request.kernels:
        found = find_kernel_folders(project)
        for name in dict.fromkeys(request.kernels):
            yield name, found[name] if name in found else load_kernel(name, project)
        return
    folder = request.folder or project / "kernels"
    if not folder.is_dir():
        cure = "name kernels, or --folder DIR" if request.folder is None else "name another folder"
        raise BadValueError(f"{folder} is no folder of kernels; {cure}")
    for path in sorted(folder.glob("*/kernel.yaml")):
        yield path.parent.name, path.parent


def _choose_variants(
    request: SweepRequest, kernel: Kernel, *, has_gpu: bool
) -> list[Variant] | str:
    """Return the variants of a kernel to judge, or why there are none."""
    wanted = None if request.variant == "all" else request.variant
    fitting = [one for one in kernel.variants if wanted in (None, one.id)]
    has_cuda = any(one.target == "cuda" for one in fitting)
    target = "cuda" if has_gpu and has_cuda else "cpu"
    if request.target != "auto":
        target = request.target
    chosen = [one for one in fitting if one.target == target]
    if not chosen:
        named = f"variant {wanted}" if wanted else "variant"
        return f"it has no {named} for {target}"
    if request.workload not in (None, *kernel.workloads):
        return f"it has no workload {request.workload}"
    return chosen if request.variant == "all" else chosen[:1]


def _make_job(
    request: SweepRequest, source: KernelFolder, packed: PackedKernel, variant: Variant
) -> PlannedJob:
    job = SweepJob(
        source.kernel.id,
        variant.id,
        variant.target,
        request.workload,
        request.check_only,
        request.timeout_s,
        request.budget_s,
    )
    return PlannedJob(job, packed, source, variant.is_compiled)


def _plan_tasks(request: SweepRequest, tasks: Path, *, has_gpu: bool) -> SweepPlan:
    if request.candidates is None or not request.candidates.is_dir():
        raise BadValueError("name the folder of the tasks' candidates: --candidates DIR")
    if not tasks.is_dir():
        raise BadValueError(f"{tasks} is no folder of tasks")
    plan = SweepPlan((), {}, {})
    target: Target = "cuda" if has_gpu else "cpu"
    if request.target != "auto":
        target = request.target
    jobs = []
    for task in sorted(tasks.glob("*.py")):
        try:
            text = read_task_text(task)
            if not all(word in text for word in _TASK_WORDS):
                continue  # hidden tests, or a candidate
            candidate = find_candidate(task, request.candidates)
            if candidate is None:
                plan.left_out[task.stem] = f"it has no candidate in {request.candidates}"
                continue
            packed, path = _pack_task(task, candidate)
        except (KbError, OSError) as error:
            plan.broken[task.stem] = str(error)
            continue
        options = (request.check_only, request.timeout_s, request.budget_s)
        job = SweepJob(task.stem, "candidate", target, request.workload, *options, candidate=path)
        jobs.append(PlannedJob(job, packed, None, is_compiled=False))
    return plan._replace(jobs=tuple(jobs))


def find_candidate(task: Path, folder: Path) -> Path | None:
    """Return the candidate of a KernelBench problem; None if there is none.

    For ``level1/23_Softmax.py`` that is ``23_Softmax.py``, or the file that KernelBench's own
    generation writes, ``level_1_problem_23_sample_0_kernel.py``.
    """
    level = re.fullmatch(r"level(\d+)", task.resolve().parent.name)
    number = re.match(r"\d+", task.stem)
    names = [task.name]
    if level and number:
        names.append(f"level_{level[1]}_problem_{number[0]}_sample_0_kernel.py")
    paths = (folder / name for name in names)
    return next((path for path in paths if path.is_file() and not path.samefile(task)), None)


def _pack_task(task: Path, candidate: Path) -> tuple[PackedKernel, str]:
    """Return the files of a task, and the path of the candidate among them."""
    path = f"candidate/{candidate.name}"
    files = {f"task/{task.name}": task, path: candidate}
    hidden = find_hidden_tests(task)
    if hidden is not None:
        files[f"task/{hidden.name}"] = hidden
    packed = {name: read_task_text(file).encode() for name, file in files.items()}
    return PackedKernel(task.stem, f"task/{task.name}", packed), path
