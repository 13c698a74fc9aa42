"""Judges many kernels on the lanes of a cluster, for ``kb lab sweep``.

Workers build ahead and judge on one device, and record nothing; the one that asked records. To
build ahead only fills the build cache of the host that judges: what is there is used where it
fits, and otherwise the lane builds itself.
"""

from __future__ import annotations

import platform
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.history.measured_subject import collect_versions, keep_state, make_measurement
from kernelkb.actions.history.record_result import (
    CallRecord,
    StepRunner,
    record_result,
    summarize_build,
    summarize_check,
)
from kernelkb.actions.kernels.foreign_tasks import (
    TASK_OPTIONS,
    bench_candidate,
    check_source,
    make_task_files,
)
from kernelkb.actions.kernels.measure_variant import (
    StepResults,
    build_check_bench,
    build_prepared,
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
from kernelkb.actions.sweep.sweep_plan import PlannedJob, SweepJob, SweepPlan
from kernelkb.cluster.cluster import Cluster
from kernelkb.cluster.lanes import Lane
from kernelkb.cluster.project_copy import (
    PackedKernel,
    pack_kernel,
    remove_unused_projects,
    unpack_kernel,
)
from kernelkb.cluster.tasks import Task, WorkerDiedError
from kernelkb.errors import KbError
from kernelkb.loading.kernels import KernelFiles, load_kernel_folder, select_variant
from kernelkb.measure.build.compilers import LIBRARY_NAME, REPORT_NAME
from kernelkb.measure.build.folders import LOG_NAME, finish, is_whole, make_unfinished_folder
from kernelkb.measure.machine.environment import lock_device
from kernelkb.measure.process.device_queue import queue_wait_s
from kernelkb.measure.subject import BenchOptions, MeasurementSubject
from kernelkb.model.records.history import Measurement
from kernelkb.model.records.measurement import (
    Bench,
    Build,
    Check,
    Machine,
    Sweep,
    SweepLane,
    SweepRow,
    SweepVerdict,
)
from kernelkb.model.records.session import Step
from kernelkb.progress import record_event, report_progress
from kernelkb.record.sessions import find_open_session_for

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
    kernel = target.subject.kernel
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


class SweepRun:
    """The rows of a sweep until now; it can be concluded at any time."""

    def __init__(self, cluster: Cluster, plan: SweepPlan, project: Path) -> None:
        self._cluster, self._plan, self._project = cluster, plan, project
        self._rows: list[SweepRow] = []
        self._lanes = {lane.worker: _LaneTimes(lane) for lane in cluster.lanes}
        self._started = time.monotonic()

    def judge_all(self) -> Iterator[SweepRow]:
        """Judge every job, and yield its row as soon as it is recorded.

        What is timed on a CPU waits until all builds have ended, which would use the same cores.
        """
        for name, problem in sorted(self._plan.broken.items()):
            yield self._add(_make_broken_row(name, problem))
        report_progress(f"judge {len(self._plan.jobs)} variants")
        later = []
        architectures = self._list_architectures()
        for number, planned in enumerate(self._plan.jobs):
            job = planned.job._replace(session=self._find_session(planned))
            planned = planned._replace(job=job)
            files = self._cluster.submit_build(keep_files, planned.packed)
            ahead: Task | None = None
            if planned.is_compiled:
                wanted = architectures if job.target == "cuda" else ()
                ahead = self._cluster.submit_build(build_ahead, files, job, wanted)
            if job.target == "cpu":
                later.append((planned, files, ahead))
            else:
                self._submit(planned, files, ahead, self._choose_model(number))
        yield from self._finish()
        for planned, files, ahead in later:
            self._submit(planned, files, ahead, None)
        yield from self._finish()

    def conclude(self) -> Sweep:
        """Return what is known now."""
        rows = sorted(self._rows, key=lambda row: (row.kernel, row.variant or ""))
        count = len(self._plan.jobs) + len(self._plan.broken)
        return Sweep(
            rows=tuple(rows),
            left_out=self._plan.left_out,
            not_judged_count=count - len(rows),
            lanes=tuple(times.summarize() for _, times in sorted(self._lanes.items())),
            counts=dict(Counter(row.verdict for row in rows).most_common()),
            seconds=time.monotonic() - self._started,
        )

    def _submit(
        self, planned: PlannedJob, files: Task, ahead: Task | None, model: str | None
    ) -> None:
        needed = [files, planned.job] if ahead is None else [files, planned.job, ahead]
        self._cluster.submit_timed(model, judge, *needed, label=planned)

    def _finish(self) -> Iterator[SweepRow]:
        for task in self._cluster.as_completed():
            if isinstance(task.label, PlannedJob):
                row = self._make_row(task, task.label)
                for done in (task, *task.needs):
                    done.future = None  # Dask would run it again if its worker died
                yield self._add(row)

    def _add(self, row: SweepRow) -> SweepRow:
        self._rows.append(row)
        status = "failure" if row.has_failed else "ok"
        bench, said = row.bench, f"{row.verdict}{f': {row.detail}' if row.detail else ''}"
        about = {"speedup": bench.speedup, "interval": bench.interval} if bench else {}
        record_event(
            "result", text=said, status=status, name=row.kernel, variant=row.variant,
            seconds=row.seconds, **about,
        )  # fmt: skip
        return row

    def _list_architectures(self) -> tuple[str, ...]:
        found = {lane.compute_capability for lane in self._cluster.lanes}
        return tuple(sorted(found - {""}))

    def _choose_model(self, number: int) -> str | None:
        """Return the model of GPU for a job, by turns; None where every lane has a GPU."""
        lanes = self._cluster.lanes
        models = [lane.model for lane in lanes if lane.compute_capability]
        if len(models) == len(lanes) or not models:
            return None
        return models[number % len(models)]

    def _find_session(self, planned: PlannedJob) -> str | None:
        if planned.source is None:
            return None
        try:
            return find_open_session_for(planned.job.name, self._project)
        except KbError:  # what logs the steps reports it
            return None

    def _make_row(self, task: Task, planned: PlannedJob) -> SweepRow:
        job = planned.job
        fields: dict[str, object] = {
            "kernel": job.name,
            "variant": job.variant,
            "target": job.target,
        }
        if task.error is not None:
            died = isinstance(task.error, WorkerDiedError)
            verdict: SweepVerdict = "invalid" if died else "not-run"
            detail = str(task.error) or type(task.error).__name__
            return SweepRow.model_validate({**fields, "verdict": verdict, "detail": detail})
        judged: JudgedJob = task.result()
        self._count_on_lane(judged)
        device = judged.machine.title if judged.machine else None
        fields |= {"device": device, "lane": judged.lane, "seconds": judged.seconds}
        return SweepRow.model_validate({**fields, **self._record(planned, judged)})

    def _count_on_lane(self, judged: JudgedJob) -> None:
        if judged.lane not in self._lanes:  # it joined meanwhile
            self._lanes |= {
                lane.worker: _LaneTimes(lane)
                for lane in self._cluster.lanes
                if lane.worker not in self._lanes
            }
        if judged.lane in self._lanes:
            self._lanes[judged.lane].add(judged)

    def _record(self, planned: PlannedJob, judged: JudgedJob) -> dict[str, object]:
        """Write what a lane found to the project, as ``kb bench`` does; return it as fields."""
        if judged.problem is not None or judged.machine is None:
            return {"verdict": "not-run", "detail": judged.problem}
        if judged.results is None:
            return _describe_bench(judged.bench) if judged.bench else {"verdict": "not-run"}
        results, bench = judged.results, judged.bench
        target = self._make_target(planned, judged)
        built = results.build
        if self._is_unchanged(planned):
            kept = keep_state(target)
            built = built.model_copy(update={"attempt": kept.attempt, "unrecorded": kept.failure})
        steps = StepRunner()
        steps.records.extend(judged.steps)
        record = CallRecord(
            target,
            "sweep",
            steps,
            built=built,
            measurement=judged.measurement,
            versions=judged.versions,
        )
        if bench is not None:
            return _describe_bench(record_result(record, bench))
        if results.check is not None:
            return _describe_check(record_result(record, results.check))
        record_result(record, built)
        return {"verdict": "invalid", "detail": built.error, "cure": built.cure}

    def _make_target(self, planned: PlannedJob, judged: JudgedJob) -> BenchTarget:
        """Return what was judged, with this project's files and the lane's machine."""
        source = planned.source
        if judged.files is not None:
            source = load_kernel_folder(judged.files.write(self._project / ".kb" / "tasks"))
        if source is None or judged.machine is None:
            raise AssertionError("nothing was judged")
        variant = select_variant(source.kernel, planned.job.target, planned.job.variant)
        return BenchTarget(MeasurementSubject(source, variant, judged.machine), self._project)

    def _is_unchanged(self, planned: PlannedJob) -> bool:
        """Return whether the files are still those that were judged: their state is kept then."""
        if planned.source is None:
            return True
        try:
            return pack_kernel(planned.source, self._project) == planned.packed
        except (KbError, OSError):
            return False


class _LaneTimes:
    """When a lane judged, by the clock of its host."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._count, self._busy_s = 0, 0.0
        self._first, self._last = float("inf"), 0.0

    def add(self, judged: JudgedJob) -> None:
        self._count += 1
        self._busy_s += judged.seconds - judged.waited_s
        self._first = min(self._first, judged.started_at)
        self._last = max(self._last, judged.started_at + judged.seconds)

    def summarize(self) -> SweepLane:
        span_s = self._last - self._first
        share = min(1.0, self._busy_s / span_s) if self._count and span_s > 0 else None
        return SweepLane(
            lane=self._lane.worker,
            model=self._lane.model,
            judged_count=self._count,
            busy_share=share,
        )


def _make_broken_row(name: str, problem: str) -> SweepRow:
    return SweepRow(kernel=name, variant=None, target=None, verdict="not-run", detail=problem)


def _describe_bench(bench: Bench) -> dict[str, object]:
    shown = {"detail": bench.detail, "cure": bench.cure}
    return {"verdict": bench.verdict, "bench": bench, **shown}


def _describe_check(check: Check) -> dict[str, object]:
    verdict = check.failure or "correct"
    detail = None if verdict == "correct" else check.detail or check.status
    return {"verdict": verdict, "detail": detail, "cure": check.cure, "check": check}
