"""Searches on the workers of a cluster: one search for each model of device, all lanes at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import NamedTuple

from kernelkb.actions.project.bench_target import BenchTarget, get_project_path, resolve_workload
from kernelkb.cluster.cluster import Cluster
from kernelkb.cluster.lanes import Lane
from kernelkb.cluster.project_copy import pack_kernel
from kernelkb.cluster.tasks import LanesLostError, Task, WorkerDiedError
from kernelkb.errors import EnvironmentGapError
from kernelkb.loading.kernels import KernelFolder, load_kernel, select_variant
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.base import Target
from kernelkb.model.kernels.tuning import ConfirmedConfiguration, TuningResult, TuningTrial
from kernelkb.model.records.measurement import Bench
from kernelkb.record.tuning_journal import TuningJournal, open_journal
from kernelkb.tune.confirm import AS_IT_IS, ROUNDS, choose_candidates, rank_by_turns
from kernelkb.tune.lanes.cluster_lanes import ClusterLanes
from kernelkb.tune.lanes.lane_tasks import (
    LaneFacts,
    LaneTrial,
    SearchJob,
    build_configuration,
    compare_configurations,
    describe_lane,
    judge_on_lane,
    keep_kernel,
)
from kernelkb.tune.lanes.lane_use import LaneUse
from kernelkb.tune.lanes.search_loop import DeviceSearch, run_searches
from kernelkb.tune.lanes.trial_recorder import ReportTrial, TrialRecorder
from kernelkb.tune.outcome import conclude, make_result
from kernelkb.tune.plan import (
    TuningPlan,
    choose_variant,
    narrow_variant,
    plan_for_device,
    require_packages,
)
from kernelkb.tune.start_search import TuningOptions, start_search
from kernelkb.tune.tune import CONFIRM_SHARE
from kernelkb.tune.winner import find_seeds

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


class _Running(NamedTuple):
    search: DeviceSearch
    journal: TuningJournal
    resumed_count: int
    seeds: Sequence[int]


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
        options: Budget and strategy; ``why`` is not supported here.
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
        running = [
            _start(stack, plan, members, options, start_report(plan, members))
            for plan, members in groups
        ]
        return _search(cluster, sources, job, running, options, started)


def _search(
    cluster: Cluster,
    sources: Task,
    job: SearchJob,
    running: Sequence[_Running],
    options: TuningOptions,
    started: float,
) -> tuple[TuningResult, ...]:
    deadline = started + options.budget_s * (1 - CONFIRM_SHARE)
    searches = [one.search for one in running]
    run_searches(ClusterLanes(cluster, sources, job), searches, deadline, options.max_trials)
    confirmed = _confirm(cluster, sources, job, running)
    judged = _judge(cluster, sources, job, confirmed) if options.judge else {}
    return tuple(
        _conclude(one, *confirmed[index][:2], judged.get(index), started)
        for index, one in enumerate(running)
    )


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


def _start(
    stack: ExitStack,
    plan: TuningPlan,
    lanes: Sequence[Lane],
    options: TuningOptions,
    report: ReportTrial,
) -> _Running:
    journal = stack.enter_context(open_journal(plan.journal, plan.identity))
    resumed, seeds = len(journal.trials), find_seeds(plan)
    search = start_search(plan, options, journal, seeds)
    recorder = TrialRecorder(plan, search, journal, report)
    return _Running(
        DeviceSearch(plan, search, recorder, map(LaneUse, lanes)), journal, resumed, seeds
    )


_Confirmed = tuple[tuple[ConfirmedConfiguration, ...], float | None, str | None]
"""The configurations, the default's time, and the lane that measured them."""


def _confirm(
    cluster: Cluster, sources: Task, job: SearchJob, running: Sequence[_Running]
) -> list[_Confirmed]:
    """Measure the fastest of each model again, in turns on one of its lanes."""
    found: list[_Confirmed] = [((), None, None)] * len(running)
    asked: dict[Task, tuple[int, list[dict[str, int]], dict[str, int] | None, str]] = {}
    for index, one in enumerate(running):
        search = one.search
        configurations, default = choose_candidates(search.plan, one.journal.trials)
        lane = _choose_lane(search)
        if not configurations or lane is None:
            continue
        if default == AS_IT_IS and not search.lanes[lane].samples:  # it needs its macros
            configurations, default = [one for one in configurations if one], None
        builds = [
            cluster.submit_build(
                build_configuration,
                *(sources, job, search.cc, search.plan.format_trial_defines(configuration)),
            )
            for configuration in configurations
        ]
        pair = builds if len(builds) > 1 else [*builds, *builds]
        compared = cluster.submit_timed(lane, compare_configurations, sources, job, ROUNDS, *pair)
        asked[compared] = index, configurations, default, lane
    for task in cluster.as_completed():
        if task not in asked or isinstance(task.error, LanesLostError | WorkerDiedError):
            continue
        index, configurations, default, lane = asked[task]
        measured: LaneTrial = task.result()
        samples = measured.outcome.samples_us[: len(configurations)]
        if samples:
            found[index] = (*rank_by_turns(configurations, samples, default), lane)
    return found


def _choose_lane(search: DeviceSearch) -> str | None:
    """Return the lane with the fastest baseline: the least disturbed one."""
    lanes = search.open_lanes
    fastest = min(lanes, key=lambda one: one.baseline_us or float("inf"), default=None)
    return fastest.uuid if fastest else None


def _judge(
    cluster: Cluster, sources: Task, job: SearchJob, confirmed: Sequence[_Confirmed]
) -> dict[int, Bench]:
    asked = {
        cluster.submit_timed(lane, judge_on_lane, sources, job, ranked[0].configuration): index
        for index, (ranked, _, lane) in enumerate(confirmed)
        if ranked and lane
    }
    return {
        asked[task]: task.result()
        for task in cluster.as_completed()
        if task in asked and not isinstance(task.error, LanesLostError | WorkerDiedError)
    }


def _conclude(
    one: _Running,
    confirmed: tuple[ConfirmedConfiguration, ...],
    default_us: float | None,
    judged: Bench | None,
    started: float,
) -> TuningResult:
    plan = one.search.plan
    found = make_result(plan, one.journal.trials, one.resumed_count, one.seeds)
    lanes = sorted(one.search.lanes.values(), key=lambda lane: lane.uuid)
    found = found.model_copy(
        update={
            "confirmed": confirmed,
            "default_us": default_us,
            "bench": judged,
            "lanes": tuple(lane.summarize() for lane in lanes),
        }
    )
    return conclude(plan, found, started)
