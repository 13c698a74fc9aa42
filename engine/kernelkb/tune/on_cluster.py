"""Searches on the workers of a cluster: one search for each model of device, all lanes at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from kernelkb.actions.project.bench_target import BenchTarget, get_project_path, resolve_workload
from kernelkb.cluster.cluster import Cluster
from kernelkb.cluster.lanes import Lane
from kernelkb.cluster.project_copy import pack_kernel
from kernelkb.cluster.tasks import LanesLostError, Task, WorkerDiedError
from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.loading.kernels import KernelFolder, load_kernel, select_variant
from kernelkb.measure.bench.trials import TrialOutcome
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.base import Target
from kernelkb.model.kernels.tuning import TuningResult, TuningTrial
from kernelkb.model.records.measurement import Bench, Build
from kernelkb.tune.lane_tasks import (
    LaneBatch,
    LaneFacts,
    LaneTrial,
    SearchJob,
    WorkerBuild,
    build_configuration,
    compare_configurations,
    describe_lane,
    judge_on_lane,
    keep_kernel,
    summarize_build,
    time_configurations,
)
from kernelkb.tune.outcome import open_search, search_and_judge
from kernelkb.tune.plan import (
    TuningOptions,
    TuningPlan,
    choose_variant,
    narrow_variant,
    plan_for_device,
    require_packages,
)
from kernelkb.tune.search_loop import (
    ROUNDS,
    BuildEnded,
    BuiltConfiguration,
    Compared,
    Confirmed,
    DeviceSearch,
    LaneUse,
    ReportTrial,
    TrialsEnded,
    Tried,
    find_slow_lanes,
)

_LOOK_S = 2.0
_CHECK_ROUNDS = 60
_WARM_UP_ROUNDS = 40
"""Of these, first and not used: an idle GPU needs a while to reach its clock."""
_MOST_CHECKS = 3
"""A device that is slow, or whose worker dies, each time is left out."""

StartReport = Callable[[TuningPlan, Sequence[Lane]], ReportTrial]
"""Called with the plan of each model and its lanes; returns what is called after each trial."""

_NO_LANE = "no lane can run the kernel", "start workers on hosts that can"


class SearchRequest(NamedTuple):
    """What to search on a cluster."""

    kernel: str
    variant: str | None = None
    """By default the first of the target that has tunables."""
    target: TargetChoice = "auto"
    """``auto``: CUDA where a lane has a GPU and the kernel a CUDA variant."""
    workload: str | None = None
    """One of the kernel's; the target's default."""
    only: Mapping[str, Sequence[int]] = MappingProxyType({})
    """The values that some tunables may have; see ``narrow_variant``."""


def _ignore_trial(_trial: TuningTrial, _best: TuningTrial | None) -> None:
    """Report nothing."""


def tune_on_cluster(
    cluster: Cluster,
    request: SearchRequest,
    options: TuningOptions,
    start_report: StartReport = lambda _plan, _lanes: _ignore_trial,
) -> tuple[TuningResult, ...]:
    """Search on all lanes, and confirm the fastest of each model on one of its devices.

    Times are compared within one model, driver and compiler; each such group has its search, its
    journal and its winner. The devices of a group time the default first, and one that is slower
    gets no trials. A configuration that ends its worker is a crashed trial.

    Args:
        cluster: Of ``open_cluster``.
        request: What to search.
        options: Budget and strategy.
        start_report: Called for each model before the search.

    Returns:
        A result for each model, sorted by its name.

    Raises:
        EnvironmentGapError: Packages are missing, or no lane has what the kernel needs.
        BadValueError: No configuration is feasible, or another process searches the same space.
        KbError: The reference fails, no lane is left, or the journal cannot be written.
    """
    started = time.monotonic()
    require_packages(options.strategy)
    source = load_kernel(request.kernel, get_project_path())
    job = _make_job(source, request, cluster.lanes)
    sources = cluster.submit_build(keep_kernel, pack_kernel(source, get_project_path()))
    groups = _group_lanes(cluster, sources, source, job, request.only)
    with ExitStack() as stack:
        opened = [
            stack.enter_context(
                open_search(plan, map(LaneUse, lanes), options, start_report(plan, lanes))
            )
            for plan, lanes in groups
        ]
        return search_and_judge(ClusterLanes(cluster, sources, job), opened, options, started)


def _make_job(source: KernelFolder, request: SearchRequest, lanes: Sequence[Lane]) -> SearchJob:
    kernel = source.kernel
    has_gpu = any(lane.compute_capability for lane in lanes)
    has_cuda = any(one.target == "cuda" for one in kernel.variants)
    target: Target = "cuda" if has_gpu and has_cuda else "cpu"
    if request.target != "auto":
        target = request.target
    if target == "cuda" and not has_gpu:
        raise EnvironmentGapError("no worker has a GPU", "start workers on hosts with GPUs")
    chosen = choose_variant(
        kernel, select_variant(kernel, target, request.variant), request.variant
    )
    workload = resolve_workload(kernel, target, request.workload)
    return SearchJob(kernel.id, chosen.id, target, workload)


def _group_lanes(
    cluster: Cluster,
    sources: Task,
    source: KernelFolder,
    job: SearchJob,
    only: Mapping[str, Sequence[int]],
) -> list[tuple[TuningPlan, list[Lane]]]:
    """Return a plan for each set of lanes whose times can be compared."""
    usable = [one for one in cluster.lanes if one.compute_capability or job.target == "cpu"]
    for lane in usable:
        cluster.submit_timed(lane.uuid, describe_lane, sources, job, label=lane)
    groups: dict[str, tuple[TuningPlan, list[Lane]]] = {}
    gaps: dict[Lane, BaseException] = {}
    for task in cluster.as_completed():
        if not isinstance(task.label, Lane):
            continue
        if task.error is not None:
            if isinstance(task.error, WorkerDiedError) and task.label not in gaps:
                lane = task.label  # its worker is back
                cluster.submit_timed(lane.uuid, describe_lane, sources, job, label=lane)
            gaps[task.label] = task.error
            continue
        plan = _plan_for_lane(source, job, task.result(), only)
        groups.setdefault(plan.journal.name, (plan, []))[1].append(task.label)
    if not groups:
        raise next(iter(gaps.values()), EnvironmentGapError(*_NO_LANE))
    return sorted(groups.values(), key=lambda one: one[0].title)


def _plan_for_lane(
    source: KernelFolder, job: SearchJob, facts: LaneFacts, only: Mapping[str, Sequence[int]]
) -> TuningPlan:
    variant = narrow_variant(select_variant(source.kernel, job.target, job.variant), only)
    subject = MeasurementSubject(source, variant, facts.machine)
    target = BenchTarget(subject, get_project_path())
    return plan_for_device(target, job.workload, facts.driver, facts.build_digest)


def _choose_lane(search: DeviceSearch) -> str | None:
    """Return the lane with the fastest baseline: the least disturbed one."""
    lanes = search.open_lanes
    fastest = min(lanes, key=lambda one: one.baseline_us or float("inf"), default=None)
    return fastest.uuid if fastest else None


@dataclass(frozen=True, slots=True)
class _Summary:
    """What a build says without its library, which stays where it was built."""

    search: DeviceSearch
    index: int
    build: Task


@dataclass(frozen=True, slots=True)
class _Check:
    """The default is timed on a lane."""

    search: DeviceSearch
    lane: str
    build: Task


@dataclass(frozen=True, slots=True)
class _Trials:
    search: DeviceSearch
    lane: str
    batch: tuple[BuiltConfiguration, ...]


class ClusterLanes:
    """The workers of a cluster, for one search of each model of device.

    The devices of a model time the default first; one that is slow beside the others, or whose
    worker dies each time, gets no trials.
    """

    most_queued = 2  # the next one's files are there when it begins
    most_in_batch = 16
    least_ahead = 0

    def __init__(self, cluster: Cluster, sources: Task, job: SearchJob) -> None:
        """Serve searches on a cluster.

        Args:
            cluster: Of ``open_cluster``.
            sources: The task whose result is the kernel's files.
            job: What the workers have to know of the search.
        """
        self._cluster, self._sources, self._job = cluster, sources, job
        self._searches: Sequence[DeviceSearch] = ()
        self._looked_at = time.monotonic()
        self._build_slots = cluster.build_slots
        self._asked: set[str] = set()
        """Lanes that have joined, and were asked what they are."""

    @property
    def build_slots(self) -> int:
        """The cores of all hosts that compile."""
        return self._build_slots

    def admit(self, searches: Sequence[DeviceSearch]) -> None:
        """Time the default on every lane; then take in lanes that join or come back."""
        if not self._searches:
            self._searches = searches
            for search in searches:
                self._check(search, search.lanes.values())
        elif time.monotonic() - self._looked_at >= _LOOK_S:
            self._looked_at = time.monotonic()
            self._look_for_lanes()

    def submit_build(self, search: DeviceSearch, index: int) -> None:
        """Start a build, whose library stays on its host until a lane needs it."""
        build = self._submit_build(search, search.plan.space.get_configuration(index))
        label = _Summary(search, index, build)
        self._cluster.submit_build(summarize_build, build, label=label, fetch=True)

    def submit_trials(
        self, search: DeviceSearch, lane: LaneUse, batch: Sequence[BuiltConfiguration]
    ) -> None:
        """Give built configurations to a lane, as one task."""
        self._cluster.submit_timed(
            lane.uuid,
            time_configurations,
            *(self._sources, self._job, search.recorder.best_us),
            *(built.task for built in batch),
            label=_Trials(search, lane.uuid, tuple(batch)),
        )

    def wait(self, timeout_s: float) -> list[BuildEnded | TrialsEnded]:
        """Return what has ended; checks and lanes that joined are dealt with here."""
        ended: list[BuildEnded | TrialsEnded] = []
        for task in self._cluster.wait(timeout_s):
            if isinstance(task.label, _Summary):
                ended.append(_finish_build(task, task.label))
            elif isinstance(task.label, _Trials):
                ended.append(self._finish_trials(task, task.label))
            elif isinstance(task.label, _Check):
                self._finish_check(task, task.label)
            elif isinstance(task.label, Lane):
                self._add_lane(task, task.label)
        return ended

    def stop(self) -> None:
        """Cancel what has not ended; a trial that runs is left to its end."""
        self._cluster.cancel()

    def compare(
        self, asked: Mapping[DeviceSearch, Sequence[Mapping[str, int]]]
    ) -> dict[DeviceSearch, Compared]:
        """Time the configurations of each model on its least disturbed lane, all at once."""
        begun: dict[Task, tuple[DeviceSearch, str, int]] = {}
        for search, configurations in asked.items():
            lane = _choose_lane(search)
            if lane is None:
                continue
            builds = [self._submit_build(search, one) for one in configurations]
            pairs = builds if len(builds) > 1 else [*builds, *builds]
            arguments = (self._sources, self._job, ROUNDS, *pairs)
            task = self._cluster.submit_timed(lane, compare_configurations, *arguments)
            begun[task] = search, lane, len(builds)
        found: dict[DeviceSearch, Compared] = {}
        for task in self._iter_ended(begun):
            search, lane, count = begun[task]
            measured: LaneTrial = task.result()
            if measured.outcome.samples_us:
                found[search] = Compared(measured.outcome.samples_us[:count], lane)
        return found

    def judge(self, confirmed: Mapping[DeviceSearch, Confirmed]) -> dict[DeviceSearch, Bench]:
        """Judge the fastest of each model on the lane that compared it, all at once."""
        begun = {
            self._cluster.submit_timed(
                found.lane,
                judge_on_lane,
                *(self._sources, self._job, found.configurations[0].configuration),
            ): search
            for search, found in confirmed.items()
        }
        return {begun[task]: task.result() for task in self._iter_ended(begun)}

    def _iter_ended(self, begun: Collection[Task]) -> Iterator[Task]:
        """Yield these tasks as they end, without those whose lane is gone."""
        for task in self._cluster.as_completed():
            if task in begun and not isinstance(task.error, LanesLostError | WorkerDiedError):
                yield task

    def _submit_build(self, search: DeviceSearch, configuration: Mapping[str, int]) -> Task:
        defines = search.plan.format_trial_defines(configuration)
        return self._cluster.submit_build(
            build_configuration, self._sources, self._job, search.cc, defines
        )

    def _check(
        self, search: DeviceSearch, lanes: Iterable[LaneUse], build: Task | None = None
    ) -> None:
        """Time the default on lanes; it is built first where no build of it is given."""
        build = build or self._submit_build(search, search.plan.default)
        for lane in lanes:
            self._cluster.submit_timed(
                lane.uuid,
                compare_configurations,
                *(self._sources, self._job, _CHECK_ROUNDS, build, build),
                label=_Check(search, lane.uuid, build),
            )

    def _finish_trials(self, task: Task, label: _Trials) -> TrialsEnded:
        search, lane, batch = label.search, label.search.lanes[label.lane], label.batch
        if isinstance(task.error, LanesLostError):
            lane.lose(str(task.error))
            _require_lanes(search)
            return TrialsEnded(search, label.lane, (), batch)
        if isinstance(task.error, WorkerDiedError):
            lane.remove(0, None)
            blamed = int(task.error.note or 0)
            outcome = TrialOutcome("crashed", "it ended the worker that tried it", ())
            left = (*batch[:blamed], *batch[blamed + 1 :])
            return TrialsEnded(search, label.lane, (Tried(batch[blamed], outcome, 0.0),), left)
        ended: LaneBatch = task.result()
        lane.remove(len(ended.trials), ended.span)
        tried = (Tried(one, *trial) for one, trial in zip(batch, ended.trials, strict=True))
        return TrialsEnded(search, label.lane, tuple(tried))

    def _finish_check(self, task: Task, label: _Check) -> None:
        search, lane = label.search, label.search.lanes[label.lane]
        lane.check_count += 1
        if isinstance(task.error, WorkerDiedError):  # it is back
            if lane.check_count < _MOST_CHECKS:
                self._check(search, [lane])  # with a new build: that one's worker may be it
                return
            lane.leave_out("its worker died each time that the default was timed")
        elif isinstance(task.error, LanesLostError):
            lane.lose(str(task.error))
        else:
            checked: LaneTrial = task.result()
            times = checked.outcome.samples_us
            lane.finish_check([one for turns in times for one in turns[_WARM_UP_ROUNDS:]])
        if not any(one.is_waiting for one in search.lanes.values()):
            self._open_lanes(search, label.build)

    def _open_lanes(self, search: DeviceSearch, build: Task) -> None:
        """Open the lanes that are as fast as the others, and check the slow ones again."""
        reasons = find_slow_lanes(search.lanes.values())
        for lane in search.lanes.values():
            if lane.left_out is not None:
                continue
            if lane.uuid not in reasons:
                lane.open()
            elif lane.check_count < _MOST_CHECKS:
                lane.rejoin()
                self._check(search, [lane], build)
            else:
                lane.leave_out(reasons[lane.uuid])
        _require_lanes(search)

    def _look_for_lanes(self) -> None:
        """Count the builders again, and take in a lane that has joined or come back."""
        self._build_slots = self._cluster.build_slots or self._build_slots
        lanes = self._cluster.lanes
        known = {uuid for search in self._searches for uuid in search.lanes} | self._asked
        for found in lanes:
            if found.uuid not in known:
                self._asked.add(found.uuid)
                arguments = (self._sources, self._job)
                self._cluster.submit_timed(found.uuid, describe_lane, *arguments, label=found)
        there = {one.uuid for one in lanes}
        for search in self._searches:
            for lane in search.lanes.values():
                if lane.is_lost and lane.uuid in there:
                    lane.rejoin()
                    lane.check_count = 0
                    self._check(search, [lane])

    def _add_lane(self, task: Task, lane: Lane) -> None:
        """Take in a lane that has joined, where its times can be compared with others'."""
        if task.error is not None:
            return
        facts: LaneFacts = task.result()
        for search in self._searches:
            if search.plan.is_comparable(facts.machine, facts.driver, facts.build_digest):
                use = search.lanes[lane.uuid] = LaneUse(lane)
                self._check(search, [use])


def _finish_build(task: Task, label: _Summary) -> BuildEnded:
    if isinstance(task.error, WorkerDiedError):
        return BuildEnded(label.search, _fail_build(label.search, label.index))
    summary: WorkerBuild = task.result()
    built = BuiltConfiguration(
        label.index, summary.build, summary.code, summary.seconds, label.build
    )
    return BuildEnded(label.search, built)


def _fail_build(search: DeviceSearch, index: int) -> BuiltConfiguration:
    """Return a failed build for a configuration that ended its compile worker."""
    subject = search.plan.bench_target.subject
    fields: dict[str, Any] = {
        **subject.identity_fields,
        "status": "failed",
        "seconds": 0.0,
        "library": None,
        "directory": "",
        "command": "",
        "error": "it ended the worker that compiled it",
    }
    return BuiltConfiguration(index, Build.model_validate(fields), None, 0.0)


def _require_lanes(search: DeviceSearch) -> None:
    if not search.open_lanes and not any(one.is_waiting for one in search.lanes.values()):
        reasons = {one.left_out for one in search.lanes.values() if one.left_out}
        raise KbError(f"no lane is left for {search.plan.title}: {'; '.join(sorted(reasons))}")
