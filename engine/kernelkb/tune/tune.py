"""Searches on the device of this process: builds on all cores but one, one trial at a time."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self

from kernelkb.cluster.lanes import Lane
from kernelkb.measure.bench.trials import TrialProcess
from kernelkb.measure.build.build import build, build_all
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.measure.machine.environment import lock_device
from kernelkb.model.kernels.tuning import TuningResult
from kernelkb.model.records.measurement import Bench
from kernelkb.profiles.machine_code import digest_code
from kernelkb.tune.outcome import open_search, search_and_judge
from kernelkb.tune.plan import TuningOptions, TuningPlan, require_packages
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
)
from kernelkb.tune.winner import judge_configuration


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
    started = time.monotonic()
    require_packages(options.strategy)
    with (
        open_search(plan, [make_local_lane(plan)], options, report) as opened,
        LocalLane(plan) as lanes,
    ):
        (result,) = search_and_judge(lanes, [opened], options, started)
        return result


def make_local_lane(plan: TuningPlan) -> LaneUse:
    """Return the device of this process, open to trials: there is no other to compare it with."""
    machine = plan.bench_target.subject.machine
    lane = LaneUse(Lane("", "", machine.title, machine.cc or "", ""))
    lane.finish_check(())
    lane.open()
    return lane


class LocalLane:
    """A context: builds that are running are waited for, and the trials' process ends, after it.

    Builds run in threads. A trial runs in ``wait``, so in the thread of the caller: the kernel ends
    the process of the trials with the thread that started it, and Ctrl-C ends a trial at once.
    """

    most_queued = 1
    most_in_batch = 1

    def __init__(self, plan: TuningPlan) -> None:
        self._process = TrialProcess(plan.bench_target.subject, plan.workload)
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
        self.stop()
        self._process.stop()

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
        """Start no build any more, and wait for those that run."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def compare(
        self, asked: Mapping[DeviceSearch, Sequence[Mapping[str, int]]]
    ) -> dict[DeviceSearch, Compared]:
        """Build the configurations, and time them in turns."""
        found = {one: self._time_in_turns(one.plan, each) for one, each in asked.items()}
        return {one: Compared(samples) for one, samples in found.items() if samples}

    def _time_in_turns(
        self, plan: TuningPlan, configurations: Sequence[Mapping[str, int]]
    ) -> Sequence[Sequence[float]]:
        bench_target = plan.bench_target
        defines = [plan.format_trial_defines(one) for one in configurations]
        builds = build_all(bench_target.subject, bench_target.build_root, defines)
        if any(one.status == "failed" for one in builds):
            return ()
        pairs = builds if len(builds) > 1 else [*builds, *builds]
        with lock_device(bench_target.subject.machine):
            outcome = self._process.run(pairs, rounds=ROUNDS)
        return outcome.samples_us[: len(builds)]

    def judge(self, confirmed: Mapping[DeviceSearch, Confirmed]) -> dict[DeviceSearch, Bench]:
        """Judge in this process, after that of the trials has ended: its memory is the judge's."""
        self._process.stop()
        return {
            one: judge_configuration(
                one.plan.bench_target, one.plan.workload, found.configurations[0].configuration
            )
            for one, found in confirmed.items()
        }


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
