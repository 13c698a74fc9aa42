"""A search from its journal to its result: what its trials show, and what is logged."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kernelkb.actions.history.measured_subject import sources_digest
from kernelkb.actions.history.record_result import log_entry, machine_fields
from kernelkb.model.kernels.tuning import (
    ConvergencePoint,
    Rejection,
    TuningResult,
    TuningTrial,
    ValueConcentration,
)
from kernelkb.model.records.measurement import Bench, Status
from kernelkb.model.records.session import Step
from kernelkb.progress import report_progress
from kernelkb.record.tuning_journal import open_journal
from kernelkb.render.text.tuning import describe_rejections, summarize_result
from kernelkb.tune.plan import TuningOptions, TuningPlan, format_defines, start_search
from kernelkb.tune.search_loop import (
    Confirmed,
    DeviceSearch,
    Lanes,
    LaneUse,
    ReportTrial,
    TrialRecorder,
    run_searches,
)
from kernelkb.tune.winner import confirm_fastest, find_seeds, record_winner

_CONFIRM_SHARE = 0.1
"""Of the budget, kept for measuring the fastest again."""
_STAGES = {"build-failed": 0, "same-code": 1, "spills": 1, "unloadable": 2}
"""The gate at which a status ends a trial; the others end it at the last one, on the device."""
_LAST_STAGE = 3
_MIN_REJECTED = 3
"""Fewer rejections at a value may be chance."""
_MAX_PROBABILITY = 0.01
"""That so many fall on a value by chance: Fisher's exact test, times the values that are tested."""
_MIN_RATIO = 2.0
"""Least share of rejections at a value, over that at the other values of its tunable."""
_MAX_CONCENTRATIONS = 3
_WITHIN = (0.05, 0.01, 0.0)


class OpenSearch(NamedTuple):
    """A search, and what it began with."""

    search: DeviceSearch
    resumed_count: int
    """Trials of earlier runs."""
    seeds: Sequence[int]
    """Indexes of the earlier winners that it tries first."""


@contextmanager
def open_search(
    plan: TuningPlan, lanes: Iterable[LaneUse], options: TuningOptions, report: ReportTrial
) -> Iterator[OpenSearch]:
    """Open the journal of a plan for one search.

    Args:
        plan: What to search.
        lanes: The devices of its model.
        options: Strategy and seed.
        report: Called after each trial, with the fastest so far.

    Raises:
        BadValueError: Another process searches the same space.
        KbError: The journal cannot be written.
    """
    with open_journal(plan.journal, plan.identity) as journal:
        resumed, seeds = len(journal.trials), find_seeds(plan)
        search = start_search(plan, options, journal, seeds)
        recorder = TrialRecorder(plan, search, journal, report)
        yield OpenSearch(DeviceSearch(plan, search, recorder, lanes), resumed, seeds)


def search_and_judge(
    lanes: Lanes, opened: Sequence[OpenSearch], options: TuningOptions, started: float
) -> tuple[TuningResult, ...]:
    """Search on all lanes, confirm and judge the fastest, and keep and log what was found.

    Args:
        lanes: Where builds and trials run.
        opened: One for each model of device.
        options: Budget and strategy.
        started: When the call began, on the monotonic clock.

    Raises:
        KbError: The reference or a baseline fails, or no lane is left.
    """
    searches = [one.search for one in opened]
    deadline = started + options.budget_s * (1 - _CONFIRM_SHARE)
    report_progress("search")
    run_searches(lanes, searches, deadline, options.max_trials)
    report_progress("measure the fastest again, in turns")
    confirmed = confirm_fastest(lanes, searches)
    report_progress("judge the winner")
    judged = lanes.judge(confirmed) if options.judge else {}
    return tuple(
        _conclude(one, confirmed.get(one.search, Confirmed()), judged.get(one.search), started)
        for one in opened
    )


def _conclude(
    opened: OpenSearch, confirmed: Confirmed, judged: Bench | None, started: float
) -> TuningResult:
    """Return the result; its ``unrecorded`` says why the database or session has no entry of it."""
    plan = opened.search.plan
    found = _make_result(opened, confirmed, judged)
    found = found.model_copy(update={"seconds": time.monotonic() - started})
    found = found.model_copy(update=record_winner(plan, found))
    failure = _log_to_session(plan, found)
    reasons = "; ".join(dict.fromkeys(filter(None, (found.unrecorded, failure))))
    return found.model_copy(update={"unrecorded": reasons or None})


def _make_result(opened: OpenSearch, confirmed: Confirmed, judged: Bench | None) -> TuningResult:
    """Return what the trials of a search show, with what was measured after them."""
    plan, trials, resumed = opened.search.plan, opened.search.recorder.trials, opened.resumed_count
    lanes = [one for one in opened.search.lanes.values() if one.uuid]  # a local one has none
    subject, space = plan.bench_target.subject, plan.space
    return TuningResult(
        **subject.identity_fields,
        workload=plan.workload,
        device=subject.machine.title,
        combination_count=space.combination_count,
        feasible_count=len(space.rows),
        trials=tuple(trials),
        default=plan.default,
        resumed_count=resumed,
        seeds=tuple(map(space.get_configuration, opened.seeds)),
        device_s=sum(trial.trial_s for trial in trials[resumed:]),
        seconds=0.0,
        importance=_rank_importance(plan, trials),
        rejections=analyse_rejections(trials),
        infeasible=tuple(one for one in space.describe().rules if one.excluded_count),
        convergence=measure_convergence(trials),
        journal=str(plan.journal),
        confirmed=confirmed.configurations,
        default_us=confirmed.default_us,
        bench=judged,
        lanes=tuple(one.summarize() for one in sorted(lanes, key=lambda one: one.uuid)),
    )


def _rank_importance(plan: TuningPlan, trials: Sequence[TuningTrial]) -> dict[str, float]:
    from kernelkb.tune.strategies.gaussian_process import rank_tunables

    timed = [
        (index, trial.time_us)
        for trial in trials
        if trial.time_us and (index := plan.space.find_index(trial.configuration)) is not None
    ]
    return rank_tunables(
        plan.space, [index for index, _ in timed], [time_us for _, time_us in timed]
    )


def _log_to_session(plan: TuningPlan, result: TuningResult) -> str | None:
    """Append the search to the open session; return why it could not be written."""
    bench_target, bench = plan.bench_target, result.bench
    status: Status = "ok" if result.winner else "warning" if result.confirmed else "failure"
    step = Step(
        name="tune",
        variant=result.variant,
        status="failure" if result.is_refused else status,
        found=summarize_result(result),
        seconds=round(result.seconds, 3),
        at=datetime.now(UTC) - timedelta(seconds=result.seconds),
        sources=_digest_winner(plan, result),
        measurement=result.measurement,
        verdict=bench.verdict if bench else None,
        speedup=bench.speedup if bench else None,
        interval=bench.interval if bench else None,
        baseline=bench.baseline if bench and bench.speedup is not None else None,
        workload=result.workload,
    )
    fields = {
        "kernel": result.kernel,
        "variant": result.variant,
        "target": result.target,
        **machine_fields(bench_target.subject.machine),
        "steps": (step,),
        "went_wrong": tuple(describe_rejections(result)),
    }
    goal = f"tune {result.kernel} on {result.workload}"
    return log_entry(bench_target.project, "tune", goal, result.kernel, fields)


def _digest_winner(plan: TuningPlan, result: TuningResult) -> str:
    """Return a digest of the sources and the winner's macros: another code than the default's."""
    digest = sources_digest(plan.bench_target)
    if result.winner is None or result.winner.configuration == result.default:
        return digest
    macros = " ".join(format_defines(result.winner.configuration))
    return hashlib.sha256(f"{digest} {macros}".encode()).hexdigest()[: len(digest)]


def analyse_rejections(trials: Sequence[TuningTrial]) -> tuple[Rejection, ...]:
    """Return the trials that were not timed by reason, each with the values that concentrate it.

    A trial that an earlier gate rejected says nothing about a later one, and does not count there.

    Args:
        trials: All of a search.
    """
    counts = Counter(one.status for one in trials if one.status != "timed")
    return tuple(_describe(trials, status, count) for status, count in counts.most_common())


def _describe(trials: Sequence[TuningTrial], status: str, count: int) -> Rejection:
    stage = _STAGES.get(status, _LAST_STAGE)
    reached = [one for one in trials if _STAGES.get(one.status, _LAST_STAGE) >= stage]
    details = Counter(one.detail for one in trials if one.status == status and one.detail)
    return Rejection(
        status=status,
        count=count,
        share=count / len(trials),
        reached_count=len(reached),
        example=details.most_common(1)[0][0] if details else None,
        concentrations=tuple(_find_concentrations(reached, status)),
    )


class _Candidate(NamedTuple):
    """A value with its probability first, so that the least likely one is the smallest."""

    probability: float
    tunable: str
    value: int
    rejected_count: int
    reached_count: int


def _find_concentrations(reached: Sequence[TuningTrial], status: str) -> list[ValueConcentration]:
    """Return the values that stand out, the least likely first; each explains trials of its own.

    Tunables depend on each other by the constraints, so that a value often stands out only because
    it comes with another. Hence the trials of a value that was found are left out for the next.
    """
    found: list[ValueConcentration] = []
    left = list(reached)
    while len(found) < _MAX_CONCENTRATIONS:
        best = min(_list_candidates(left, status), default=None)
        if best is None or best.probability > _MAX_PROBABILITY:
            break
        _, tunable, value, rejected_count, reached_count = best
        found.append(
            ValueConcentration(
                tunable=tunable,
                value=value,
                rejected_count=rejected_count,
                reached_count=reached_count,
            )
        )
        left = [one for one in left if one.configuration.get(tunable) != value]
    return found


def _list_candidates(reached: Sequence[TuningTrial], status: str) -> list[_Candidate]:
    from scipy.stats import hypergeom

    totals: Counter[tuple[str, int]] = Counter()
    rejected: Counter[tuple[str, int]] = Counter()
    for trial in reached:
        totals.update(trial.configuration.items())
        if trial.status == status:
            rejected.update(trial.configuration.items())
    values: dict[str, int] = defaultdict(int)
    for tunable, _ in totals:
        values[tunable] += 1
    tested = [one for one in totals if values[one[0]] > 1]
    all_count = len(reached)
    all_rejected = sum(one.status == status for one in reached)
    candidates = []
    for tunable, value in tested:
        hits, count = rejected[tunable, value], totals[tunable, value]
        elsewhere = (all_rejected - hits) / (all_count - count)
        if hits < _MIN_REJECTED or hits / count < _MIN_RATIO * elsewhere:
            continue
        chance = float(hypergeom.sf(hits - 1, all_count, all_rejected, count)) * len(tested)
        candidates.append(_Candidate(chance, tunable, value, hits, count))
    return candidates


def measure_convergence(trials: Sequence[TuningTrial]) -> tuple[ConvergencePoint, ...]:
    """Return after how many trials a time within 5 %, within 1 % and the best itself was found.

    Args:
        trials: In the order in which they ended.
    """
    best_us = min((one.time_us for one in trials if one.time_us), default=None)
    if best_us is None:
        return ()
    points = []
    for within in _WITHIN:
        limit = best_us * (1 + within)
        at = next(i for i, one in enumerate(trials) if one.time_us and one.time_us <= limit)
        device_s = sum(one.trial_s for one in trials[: at + 1])
        points.append(
            ConvergencePoint(within=within, trial_count=at + 1, device_s=round(device_s, 3))
        )
    return tuple(points)
