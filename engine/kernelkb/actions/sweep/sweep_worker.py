"""What workers do for ``kb lab sweep``: build ahead, judge on one device, record nothing.

Building ahead only fills the build cache of the host that judges: what is there is used where it
fits, and otherwise the lane builds itself.
"""

from __future__ import annotations

import platform
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.history.measured_subject import collect_versions, make_measurement
from kernelkb.actions.history.steps import StepRunner, summarize_build, summarize_check
from kernelkb.actions.kernels.building import build_prepared
from kernelkb.actions.kernels.foreign_tasks import (
    TASK_OPTIONS,
    bench_candidate,
    check_source,
    make_task_files,
)
from kernelkb.actions.kernels.measure_variant import (
    StepResults,
    build_check_bench,
    check_built,
    get_or_make_bench,
)
from kernelkb.actions.project.bench_target import (
    BenchTarget,
    prepare_architecture_in,
    prepare_in,
    require_machine,
    resolve_workload,
    validate_machine,
)
from kernelkb.actions.sweep.sweep_plan import SweepJob
from kernelkb.cluster.project_copy import PackedKernel, remove_unused_projects, unpack_kernel
from kernelkb.errors import KbError
from kernelkb.loading.kernels import KernelFiles, load_kernel_folder, select_variant
from kernelkb.measure.build.commands import LIBRARY_NAME, REPORT_NAME
from kernelkb.measure.build.folders import LOG_NAME, finish, is_whole, make_unfinished_folder
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.measure.process.device_queue import queue_wait_s
from kernelkb.measure.subject import BenchOptions, MeasurementSubject
from kernelkb.model.records.history import Measurement
from kernelkb.model.records.measurement import Bench, Build, Check, Machine
from kernelkb.model.records.session import Step

_OPTIONS = BenchOptions(keeps=False)


class BuiltAhead(NamedTuple):
    """What a compile worker made, for the host that judges."""

    toolchain: tuple[str, ...]
    """Only a host with the same one can use the libraries."""
    host: str
    libraries: Mapping[str, Mapping[str, bytes]]
    """Files of each finished build, by the build's folder below ``.kb/build``."""
    failed: Mapping[str, Build]
    """Builds that failed, by compute capability; empty for a CPU."""


class JudgedJob(NamedTuple):
    """What a lane found, for the client to record."""

    machine: Machine | None = None
    versions: Mapping[str, str] | None = None
    results: StepResults | None = None
    bench: Bench | None = None
    """With the reason where it was not timed; None in a check."""
    steps: tuple[Step, ...] = ()
    measurement: Measurement | None = None
    files: KernelFiles | None = None
    """The kernel folder of a task."""
    problem: str | None = None
    """Why nothing can be said of the variant."""
    lane: str = ""
    """Name of the worker."""
    started_at: float = 0.0
    """Seconds since 1970, by the clock of the host."""
    seconds: float = 0.0
    waited_s: float = 0.0
    """For the device, which others used."""


def keep_files(packed: PackedKernel) -> PackedKernel:
    """Return the kernel's files: as the result of a task they travel to each worker once."""
    remove_unused_projects()
    return packed


def build_ahead(packed: PackedKernel, job: SweepJob, architectures: tuple[str, ...]) -> BuiltAhead:
    """Build a variant on a compile worker.

    Args:
        packed: The kernel.
        job: The variant.
        architectures: Compute capabilities of the lanes; none for a CPU.
    """
    project = unpack_kernel(packed)
    ahead = BuiltAhead((), socket.gethostname(), {}, {})
    for cc in architectures or ("",):
        with suppress(KbError):  # the lane builds, and says why it cannot
            target = _prepare_build(project, job, cc)
            built = build_prepared(target, _OPTIONS)
            ahead = ahead._replace(toolchain=_describe_toolchain(target.subject.machine))
            if built.status == "failed":
                ahead = ahead._replace(failed={**ahead.failed, cc: built})
            elif built.library is not None:
                folder = Path(built.library).parent
                name = folder.relative_to(target.build_root).as_posix()
                libraries = {**ahead.libraries, name: _read_build(folder)}
                ahead = ahead._replace(libraries=libraries)
    return ahead


def judge(packed: PackedKernel, job: SweepJob, ahead: BuiltAhead | None = None) -> JudgedJob:
    """Check a variant on this worker's device, and time it unless only the check is wanted.

    Args:
        packed: The kernel, or the task with its candidate.
        job: What to judge.
        ahead: Of ``build_ahead``; None: the lane builds.
    """
    started_at, started, waited_s = time.time(), time.monotonic(), queue_wait_s()
    try:
        project = unpack_kernel(packed)
        found = _judge_task(project, packed, job) if job.candidate else _judge(project, job, ahead)
    except KbError as error:
        found = JudgedJob(problem=str(error))
    return found._replace(
        lane=_get_worker_name(),
        started_at=started_at,
        seconds=time.monotonic() - started,
        waited_s=queue_wait_s() - waited_s,
    )


def _get_worker_name() -> str:
    from distributed import get_worker

    with suppress(ValueError):  # it is called in no worker
        return str(get_worker().name)
    return ""


def _judge(project: Path, job: SweepJob, ahead: BuiltAhead | None) -> JudgedJob:
    target = prepare_in(project, job.name, job.variant, job.target)
    machine = target.subject.machine
    failed = None
    if ahead is not None and ahead.toolchain == _describe_toolchain(machine):
        _place_builds(target, ahead)
        if ahead.host == socket.gethostname():
            failed = ahead.failed.get(machine.cc or "")
    return _run_steps(target, job, failed)


def _judge_task(project: Path, packed: PackedKernel, job: SweepJob) -> JudgedJob:
    machine = require_machine(validate_machine(job.target))
    with lock_device(machine):  # inspecting a task runs it on the device
        task, candidate = project / packed.folder, project / str(job.candidate)
        files = make_task_files(task, candidate, None, machine.target)
    source = load_kernel_folder(files.write(project / ".kb" / "tasks"))
    variant = select_variant(source.kernel, machine.target)
    target = BenchTarget(MeasurementSubject(source, variant, machine), project)
    found = JudgedJob()

    def run() -> Bench:
        nonlocal found
        found = _run_steps(target, job)
        if found.bench is None:
            raise AssertionError("a check has no bench")
        return found.bench

    violations, _ = check_source(target)
    if job.check_only and not violations:
        found = _run_steps(target, job)
    else:
        bench = bench_candidate(target, job.workload, files.warnings, run)
        found = found._replace(bench=bench)
    return found._replace(machine=machine, files=files)


def _run_steps(target: BenchTarget, job: SweepJob, failed: Build | None = None) -> JudgedJob:
    """Run the steps of ``kb bench``, or those up to the check."""
    steps, machine = StepRunner(), target.subject.machine
    kernel = target.subject.kernel_folder.kernel
    workload = resolve_workload(kernel, target.subject.variant.target, job.workload)
    options = _choose_options(job)
    if failed is not None:
        results = StepResults(_run_build(steps, target, lambda: failed))
    elif job.check_only:
        results = _build_and_check(steps, target, workload, options)
    else:
        results = build_check_bench(steps, target, workload, options)
    measurement = None
    if results.bench is not None:
        measurement = make_measurement(target, results.build, results.bench, session=job.session)
        steps.set_measurement(measurement.id)
    return JudgedJob(
        machine,
        collect_versions(machine),
        results,
        None if job.check_only else get_or_make_bench(target, workload, results),
        tuple(steps.records),
        measurement,
    )


def _choose_options(job: SweepJob) -> BenchOptions:
    of_task = TASK_OPTIONS if job.candidate else _OPTIONS
    timeout_s = job.timeout_s or of_task.timeout_s
    return _OPTIONS._replace(timeout_s=timeout_s, budget_s=job.budget_s)


def _build_and_check(
    steps: StepRunner, target: BenchTarget, workload: str, options: BenchOptions
) -> StepResults:
    built = _run_build(steps, target, lambda: build_prepared(target, options))
    if steps.has_failed:
        return StepResults(built)

    def check() -> Check:
        return check_built(target, built, workload, options.timeout_s)

    return StepResults(built, steps.run("check", target.subject.variant.id, check, summarize_check))


def _run_build(steps: StepRunner, target: BenchTarget, build: Callable[[], Build]) -> Build:
    name = target.subject.variant.id
    return steps.run("build", name, build, lambda built, run: summarize_build(target, built, run))


def _prepare_build(project: Path, job: SweepJob, cc: str) -> BenchTarget:
    if cc:
        return prepare_architecture_in(project, job.name, job.variant, cc)
    return prepare_in(project, job.name, job.variant, job.target)


def _describe_toolchain(machine: Machine) -> tuple[str, ...]:
    """Return what a library depends on beside what the name of its build's folder says."""
    return machine.compiler, machine.compiler_version, *platform.libc_ver()


def _read_build(folder: Path) -> dict[str, bytes]:
    paths = (folder / name for name in (LIBRARY_NAME, LOG_NAME, REPORT_NAME))
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def _place_builds(target: BenchTarget, ahead: BuiltAhead) -> None:
    """Write builds of another host to the build cache of this one."""
    for name, files in ahead.libraries.items():
        final = target.build_root / name
        if is_whole(final):
            continue
        unfinished = make_unfinished_folder(final.parent)
        for file, content in files.items():
            (unfinished / file).write_bytes(content)
        finish(unfinished, final)
        shutil.rmtree(unfinished, ignore_errors=True)
