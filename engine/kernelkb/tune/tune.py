"""Searches on the device of this process: builds on all cores but one, one trial at a time."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import NamedTuple, Self

from kernelkb.cluster.lanes import Lane
from kernelkb.measure.bench.trials import TrialProcess
from kernelkb.measure.build.build import build
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.measure.machine.environment import lock_device
from kernelkb.model.kernels.tuning import ConfirmedConfiguration, TuningResult, TuningTrial
from kernelkb.profiles.machine_code import digest_code
from kernelkb.record.tuning_journal import open_journal
from kernelkb.tune.outcome import conclude, make_result
from kernelkb.tune.plan import TuningOptions, TuningPlan, require_packages, start_search
from kernelkb.tune.search_loop import (
    BuildEnded,
    BuiltConfiguration,
    DeviceSearch,
    LaneUse,
    ReportTrial,
    TrialRecorder,
    TrialsEnded,
    Tried,
    run_searches,
)
from kernelkb.tune.winner import confirm_fastest, find_seeds, judge_configuration

CONFIRM_SHARE = 0.1
"""Of the budget, kept for measuring the fastest again."""


def tune(
    plan: TuningPlan,
    options: TuningOptions,
    report: ReportTrial = lambda _trial, _best: None,
) -> TuningResult:
    """Search until the budget is used or every configuration was tried, and confirm the fastest.

    Trials of earlier runs on the same source, device and versions are not repeated. Ctrl-C ends the
    search and keeps its trials.

    Args:
        plan: What to search; see ``plan_tuning``.
        options: Budget and strategy.
        report: Called after each trial, with the fastest so far.

    Raises:
        EnvironmentGapError: The packages of the extra ``tune`` are missing.
        BadValueError: Another process searches the same space.
        KbError: The reference fails, or the journal cannot be written.
    """
    started, target = time.monotonic(), plan.bench_target
    require_packages(options.strategy)
    searched = _search(plan, options, report, started)
    judged = None
    if options.judge and searched.confirmed:
        best = searched.confirmed[0].configuration
        judged = judge_configuration(target, plan.workload, best)
    found = make_result(
        plan,
        searched.trials,
        searched.resumed_count,
        searched.seeds,
        confirmed=searched.confirmed,
        default_us=searched.default_us,
        bench=judged,
    )
    return conclude(plan, found, started)


class _Searched(NamedTuple):
    trials: Sequence[TuningTrial]
    resumed_count: int
    seeds: Sequence[int]
    confirmed: tuple[ConfirmedConfiguration, ...]
    default_us: float | None


def _search(
    plan: TuningPlan, options: TuningOptions, report: ReportTrial, started: float
) -> _Searched:
    with (
        open_journal(plan.journal, plan.identity) as journal,
        TrialProcess(plan.bench_target.subject, plan.workload) as process,
    ):
        resumed = len(journal.trials)
        seeds = find_seeds(plan)
        search = start_search(plan, options, journal, seeds)
        deadline = started + options.budget_s * (1 - CONFIRM_SHARE)
        recorder = TrialRecorder(plan, search, journal, report)
        device = DeviceSearch(plan, search, recorder, [make_local_lane(plan)])
        with LocalLane(plan, process) as lane:
            run_searches(lane, [device], deadline, options.max_trials)
        confirmed, default_us = confirm_fastest(plan, process, journal.trials)
    return _Searched(journal.trials, resumed, seeds, confirmed, default_us)


def make_local_lane(plan: TuningPlan) -> LaneUse:
    """Return the device of this process, open to trials: there is no other to compare it with."""
    machine = plan.bench_target.subject.machine
    lane = LaneUse(Lane("", "", machine.title, machine.cc or "", ""))
    lane.finish_check(())
    lane.open()
    return lane


class LocalLane:
    """A context: builds that are running are waited for after the block.

    Builds run in threads. A trial runs in ``wait``, so in the thread of the caller: the kernel ends
    the process of the trials with the thread that started it, and Ctrl-C ends a trial at once.
    """

    most_queued = 1
    most_in_batch = 1

    def __init__(self, plan: TuningPlan, process: TrialProcess) -> None:
        self._process = process
        core_count = plan.bench_target.subject.machine.core_count
        self._build_slots = self.least_ahead = max(1, core_count - 1)
        self._pool = ThreadPoolExecutor(self._build_slots)
        self._building: set[Future[BuildEnded]] = set()
        self._given: tuple[DeviceSearch, LaneUse, BuiltConfiguration] | None = None

    @property
    def build_slots(self) -> int:
        """One for each core but one."""
        return self._build_slots

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def admit(self, searches: Sequence[DeviceSearch]) -> None:
        """Do nothing: no lane joins."""

    def submit_build(self, search: DeviceSearch, index: int) -> None:
        """Start the build of a configuration."""
        context = contextvars.copy_context()
        self._building.add(self._pool.submit(context.run, _build, search, index))

    def submit_trials(
        self, search: DeviceSearch, lane: LaneUse, batch: Sequence[BuiltConfiguration]
    ) -> None:
        """Keep a built configuration for ``wait``."""
        (built,) = batch
        self._given = search, lane, built

    def wait(self, timeout_s: float) -> list[BuildEnded | TrialsEnded]:
        """Try the configuration that was given; without one, wait for builds."""
        if self._given is not None:
            (search, lane, built), self._given = self._given, None
            tried = self._try(search, built)
            lane.remove(1, None)
            return [TrialsEnded(search, None, (tried,))]
        ended, _ = wait(self._building, timeout=timeout_s, return_when=FIRST_COMPLETED)
        self._building -= ended
        return [future.result() for future in ended]

    def _try(self, search: DeviceSearch, built: BuiltConfiguration) -> Tried:
        with lock_device(search.plan.bench_target.subject.machine):
            started = time.monotonic()
            outcome = self._process.run([built.build], search.recorder.best_us)
            return Tried(built, outcome, time.monotonic() - started)

    def stop(self) -> None:
        """Start no build any more."""
        for future in self._building:
            future.cancel()


def _build(search: DeviceSearch, index: int) -> BuildEnded:
    started = time.monotonic()
    plan = search.plan
    defines = plan.format_trial_defines(plan.space.get_configuration(index))
    built = build(plan.bench_target.subject, plan.bench_target.build_root, defines)
    code = None
    if built.status != "failed" and built.target == "cuda":
        code = digest_code(find_machine_code(built))
    seconds = time.monotonic() - started
    return BuildEnded(search, BuiltConfiguration(index, built, code, seconds))
