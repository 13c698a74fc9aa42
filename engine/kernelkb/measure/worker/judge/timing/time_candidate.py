"""Times a candidate: trials, rivals ranked, pairs until the interval is narrow, then resources."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.measure.worker.judge.procfs import raise_session
from kernelkb.measure.worker.judge.runner_process import CANDIDATE, RunnerProcess
from kernelkb.measure.worker.judge.timing.bench_runners import BenchRunners
from kernelkb.measure.worker.judge.timing.pair_timing import (
    IncorrectCallError,
    is_slower_in_trials,
    sort_ratios,
    time_pairs,
)
from kernelkb.measure.worker.judge.timing.resource_use import ResourceMeter, blame_for_memory
from kernelkb.measure.worker.judge.timing.rival_precision import RivalPrecision, check_trial_calls
from kernelkb.measure.worker.judge.timing.runner_timer import RunnerTimer
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError, UnsupportedHost
from kernelkb.measure.worker.shared.messages.jobs import (
    BenchJob,
    BenchJobResult,
    BenchTimes,
    PairTimes,
    ResourceReadings,
    RivalTimes,
)

_LONG_CALL_NS = {"cpu": 5e5, "cuda": 1e6}
"""A batch is one call from here on: some ten times the judge's round trip."""
_MIN_ROUND_TRIPS = 4.0
"""Of such a call, on a CPU: beside other programs the round trip takes 0.6 ms, by which a call of
0.5 ms alone would be known to a quarter of its time."""
_GUARD_BYTES = 4096
"""Guard regions of one slot, at most, per array."""
_MIN_SLOTS = 4
"""Where memory allows it."""

_TRIAL_ERROR = 0.03
"""Of a few batches, relative; chosen. Rivals that are closer may be in the other order."""
_LEAST_GAIN = 1.005
"""A candidate is called faster from 1.01 on."""
_PROBE_BATCHES = 3
"""Batches to estimate the time of a call, before the batch size is known."""
_TRIAL_BATCHES = 5
"""Batches to rank rivals, and to choose the batch size."""
_MAX_GRAPH_SPEEDUP = 8.0
"""A launch takes some 15 us one by one and 2 us in a graph (H100)."""


class BatchSizes:
    """Sizes of the batches of one bench.

    Attributes:
        is_single_call: Whether each batch is one call.
        round_trip_ns: The judge's, as the baselines' trials have it.
    """

    def __init__(self, job: BenchJob) -> None:
        self._job = job
        self.is_single_call = False
        self.round_trip_ns = 0.0

    def is_long(self, call_ns: float) -> bool:
        """Return whether calls of some nanoseconds are timed one by one."""
        target = self._job["target"]
        least_ns = _MIN_ROUND_TRIPS * self.round_trip_ns if target == "cpu" else 0.0
        return call_ns >= max(_LONG_CALL_NS[target], least_ns)

    def calls_per_batch(self, call_ns: float) -> int:
        """Return how many calls make a batch long enough for the judge's clock.

        Limited by the number of slots and by the memory for them. Candidate and rivals differ, save
        that batches of one call are for all of them: a call alone takes longer than in a batch.
        """
        if self.is_single_call:
            return 1
        wanted = int(self._job["batch_ns"] / max(1.0, call_ns)) + 1
        return int(max(1, min(wanted, self._job["max_slots"], self._affordable_slots - 1)))

    def slot_count(self, call_ns: float) -> int:
        """Return how many slots to allocate, one of which stays untouched in each batch.

        Long calls are timed one by one, and checked in short series besides.
        """
        return max(self.calls_per_batch(call_ns) + 1, min(_MIN_SLOTS, self._affordable_slots))

    @property
    def _affordable_slots(self) -> int:
        slot_bytes = self._job["working_set_bytes"] + _GUARD_BYTES
        return int(self._job["arena_bytes"] // slot_bytes)


class TrialTimer:
    """Times trial batches of one bench.

    Attributes:
        may_use_graph: Whether calls may be captured in CUDA graphs.
    """

    def __init__(
        self,
        job: BenchJob,
        runners: BenchRunners,
        sizes: BatchSizes,
        precision: RivalPrecision,
    ) -> None:
        self._job, self._runners, self._sizes = job, runners, sizes
        self._precision = precision
        # A graph keeps every temporary of every call, and long calls hide their launches anyway.
        self.may_use_graph = job["target"] == "cuda" and not runners.case.plan.in_pieces
        self._copy_ns_by_rival: dict[str, float] = {}
        self._round_trips: list[float] = []

    def probe_ns(self, candidate: RunnerTimer) -> float:
        """Return the nanoseconds of a call of the candidate, roughly."""
        return self._median_call_ns(candidate, _PROBE_BATCHES)

    def time_candidate(self, candidate: RunnerTimer, first_ns: float) -> RivalTimes:
        """Time trial batches of the candidate, launched one by one and in a CUDA graph.

        Args:
            candidate: Loaded and bound.
            first_ns: Of one call, roughly.

        Raises:
            IncorrectCallError: A graph was captured, and computes something else when replayed.
        """
        candidate.plan_batches(self._sizes.calls_per_batch(first_ns), graph=False)
        eager_ns = self._median_call_ns(candidate, _TRIAL_BATCHES)
        calls = self._sizes.calls_per_batch(eager_ns)
        graph_ns = self._graph_call_ns(candidate, calls) if self.may_use_graph else None
        if candidate.graph_fault:
            raise IncorrectCallError(candidate.graph_fault)
        return {"eager_ns": eager_ns, "graph_ns": graph_ns}

    def max_copy_ns(self) -> float | None:
        """Return what it takes to say where one call's outputs are; None where that is not said."""
        copies = self._job["returns"] and self._job["target"] == "cuda"
        return max(self._copy_ns_by_rival.values()) if copies else None

    def _median_call_ns(self, timer: RunnerTimer, count: int) -> float:
        """Return the median nanoseconds of a call over some batches, by the runner's clock."""
        times = []
        self._runners.write_progress(timer.name)
        for _ in range(count):
            batch = timer.time_batch().batch
            times.append(batch.runner_ns / batch.calls)
            if timer.name != CANDIDATE:
                self._copy_ns_by_rival[timer.name] = batch.copy_ns / batch.calls
                self._round_trips.append(batch.judge_ns - batch.runner_ns - batch.copy_ns)
                self._sizes.round_trip_ns = statistics.median(self._round_trips)
        return statistics.median(times)

    def probe_rivals(self, rivals: dict[str, RunnerTimer]) -> list[float]:
        """Return the nanoseconds of a call of each rival, roughly; those that fail are dropped."""
        times = []
        for name, timer in rivals.items():
            with self._runners.rivals.drop_on_failure(name):
                times.append(self._median_call_ns(timer, _PROBE_BATCHES))
                self._runners.release_memory(self._runners.rivals.runners[name])
        return times

    def compare_rivals(
        self, names: Iterable[str], *, verify: bool = False
    ) -> dict[str, RivalTimes]:
        """Time rivals over a few batches, launched one by one and in a CUDA graph."""
        times: dict[str, RivalTimes] = {}
        for name in [name for name in names if name in self._runners.rivals.runners]:
            with self._runners.rivals.drop_on_failure(name):
                timer = self._runners.make_timer(self._runners.rivals.runners[name])
                timer.plan_batches(1, graph=False)
                if verify:
                    self._precision.verify_rival(timer, self._runners.buffers)
                calls = self._sizes.calls_per_batch(self._median_call_ns(timer, _PROBE_BATCHES))
                timer.plan_batches(calls, graph=False)
                eager_ns = self._median_call_ns(timer, _TRIAL_BATCHES)
                graph_ns = self._graph_call_ns(timer, calls) if self.may_use_graph else None
                times[name] = {"eager_ns": eager_ns, "graph_ns": graph_ns}
                self._runners.release_memory(self._runners.rivals.runners[name])
        return times

    def _graph_call_ns(self, timer: RunnerTimer, calls: int) -> float | None:
        timer.plan_batches(calls, graph=True)
        return self._median_call_ns(timer, _TRIAL_BATCHES) if timer.uses_graph else None


class RankedRival(NamedTuple):
    """A rival, and how it is timed against the candidate."""

    name: str
    times: RivalTimes
    uses_graph: bool

    @property
    def call_ns(self) -> float:
        """Nanoseconds of a call in trial batches."""
        return (self.uses_graph and self.times["graph_ns"]) or self.times["eager_ns"]


def rank_rivals(rival_times: Mapping[str, RivalTimes], *, graph: bool) -> list[RankedRival]:
    """Return the fastest rival and those within the error of the trials, in their order.

    Args:
        rival_times: Of trial batches, by name; one at least.
        graph: Whether the candidate can be captured in a CUDA graph. A rival that cannot is
            launched one by one, as the candidate is then.
    """
    rivals = [
        RankedRival(name, times, graph and times["graph_ns"] is not None)
        for name, times in rival_times.items()
    ]
    rivals.sort(key=lambda rival: rival.call_ns)
    limit_ns = (1 + _TRIAL_ERROR) * rivals[0].call_ns
    return [rival for rival in rivals if rival.call_ns <= limit_ns]


def may_gain_nothing(pair_times: PairTimes, rival: RankedRival, other: RankedRival) -> bool:
    """Return whether a candidate that is faster than one rival may not be faster than another.

    Args:
        pair_times: Of the candidate and the first rival.
        rival: The first.
        other: One that took as long in trial batches, within their error.
    """
    gain = gain_ratio(pair_times)
    least_gain = (1 - _TRIAL_ERROR) * gain * other.call_ns / rival.call_ns
    return gain > _LEAST_GAIN and least_gain <= 1


def gain_ratio(pair_times: PairTimes) -> float:
    """Return the candidate's speedup, roughly: the median of the pairs."""
    batches = pair_times["candidate_batches"], pair_times["rival_batches"]
    return 1 / statistics.median(sort_ratios(*batches))


def best_ns(times: RivalTimes) -> float:
    """Return the nanoseconds of a call as it is fastest: in a graph, where there is one."""
    return times["graph_ns"] or times["eager_ns"]


class _Trial(NamedTuple):
    """Trial batches of the candidate and of the rivals in the pool."""

    timer: RunnerTimer
    """The candidate's."""
    times: RivalTimes
    """The same."""
    rival_times: dict[str, RivalTimes]
    no_graph_reason: str | None


class _TimedPairs(NamedTuple):
    """Pairs of the candidate and one rival."""

    rival: RankedRival
    timer: RunnerTimer
    """The rival's."""
    uses_graph: bool
    """Whether batches are CUDA graphs."""
    pairs: PairTimes


class PairedBench:
    """Candidate against the fastest of its rivals, on one workload."""

    def __init__(self, job: BenchJob, runners: dict[str, RunnerProcess], folder: Path) -> None:
        self._meter = ResourceMeter(job)
        self._job, self._folder = job, folder
        self._runners = BenchRunners(job, runners, folder, self._meter.memory)
        self._rivals = self._runners.rivals
        self._precision = RivalPrecision(job)
        self._sizes = BatchSizes(job)
        self._trials = TrialTimer(job, self._runners, self._sizes, self._precision)
        self._left_out: list[str] = []

    def run(self) -> BenchTimes:
        """Choose batch size and rival, then time pairs of batches until the budget is used.

        Loads nothing of the candidate before the job may start; see ``wait_for_start``.
        """
        try:
            self._runners.wait_for_start()
            raise_session()
            self._meter.steps.restart()
            return self._time_all()
        except (UnsupportedHost, RuntimeError, RunnerDied, RunnerError) as error:
            self._rivals.close(*list(self._rivals.runners))
            if self._job["target"] == "cuda":
                blame_for_memory(error, self._runners.candidate)
            raise
        finally:
            self._runners.slow.close()

    def _time_all(self) -> BenchTimes:
        idle_read_ns = self._runners.buffers.idle_read_ns()  # before candidate code is loaded
        trial = self._choose_rivals()
        self._meter.steps.finish("baselines")
        trial, timed = self._time_fairly(trial)
        self._meter.finish_timing(timed.pairs["check_s"])
        with_energy = not timed.pairs["is_plainly_slower"]
        return {
            **timed.pairs,
            **self._measure_resources(trial.timer, timed.timer, with_energy=with_energy),
            "rival_name": timed.rival.name,
            "rivals": trial.rival_times,
            "precision": self._precision.make_report(),
            "rejection_reasons": self._rivals.rejection_reasons,
            "left_out": self._left_out,
            "uses_graph": timed.uses_graph,
            "no_graph_reason": None if timed.uses_graph else trial.no_graph_reason,
            "eager_ns": trial.times["eager_ns"],
            "layers": self._runners.candidate.sandbox_layers,
            "copy_ns": self._trials.max_copy_ns(),
            "idle_read_ns": idle_read_ns,
            "notes": [*self._runners.case.notes, *trial.timer.returned.notes],
        }

    def _choose_rivals(self) -> _Trial:
        """Load all and time trial batches; leave out slow rivals that no verdict depends on."""
        runners = self._runners
        timers = runners.load_all()
        self._meter.steps.finish("load")
        if runners.slow.are_loading:
            trial = self._run_trial(*timers)
            self._meter.steps.finish("baselines")
            if is_slower_in_trials(trial.times, trial.rival_times):
                self._left_out = runners.slow.leave_out()
                self._precision.skipped = runners.slow_names
                return trial
        if runners.slow.names:
            runners.join_slow()
            timers = runners.attach_all()
            self._meter.steps.finish("load")
        return self._run_trial(*timers)

    def _run_trial(self, candidate: RunnerTimer, rivals: dict[str, RunnerTimer]) -> _Trial:
        """Time trial batches of the candidate and of the rivals in the pool."""
        first_ns = self._trials.probe_ns(candidate)
        shortest_ns = min([first_ns, *self._trials.probe_rivals(rivals)])
        if self._trials.may_use_graph:
            shortest_ns /= _MAX_GRAPH_SPEEDUP
        self._runners.renew_buffers(self._sizes.slot_count(shortest_ns))
        self._runners.write_progress(CANDIDATE)
        candidate = self._runners.make_timer(self._runners.candidate)
        if self._trials.may_use_graph and (fault := candidate.find_stream_order_fault()):
            raise IncorrectCallError(fault)
        own_times = self._trials.time_candidate(candidate, first_ns)
        no_graph_reason = candidate.no_graph_reason
        rival_times = self._trials.compare_rivals(self._rivals.runners)
        self._precision.base_rivals = list(rival_times)
        self._runners.write_progress(CANDIDATE)
        with self._precision.observe(self._runners.buffers):
            check_trial_calls(candidate)
        return _Trial(candidate, own_times, rival_times, no_graph_reason)

    def _measure_resources(
        self, candidate: RunnerTimer, rival: RunnerTimer, *, with_energy: bool
    ) -> ResourceReadings:
        runners = self._runners.candidate, self._rivals.runners[rival.name]
        renew, report = self._runners.renew_buffers, self._runners.write_progress
        return self._meter.measure(
            (candidate, rival), runners, renew, report, with_energy=with_energy
        )

    def _time_fairly(self, trial: _Trial) -> tuple[_Trial, _TimedPairs]:
        """Time pairs with the fastest rival that is as exact as the candidate; see ``run``.

        Again, where timed calls were less exact than those before and admit more rivals, or where
        they do not confirm that rivals could be left out.

        Returns:
            The trial, with the candidate's times anew where it was wrong, and the pairs.
        """
        candidate, rival_times = trial.timer, trial.rival_times
        while True:
            rival_times |= self._add_reduced_rivals()
            running = {name: rival_times[name] for name in self._rivals.runners}
            may_use_graph = trial.times["graph_ns"] is not None
            timed = self._time_closest(trial, rank_rivals(running, graph=may_use_graph))
            if self._left_out and not timed.pairs["is_plainly_slower"]:
                rival_times |= self._time_left_out()
                # Batches planned by times that are wrong would be of another length.
                trial = trial._replace(times=self._time_again(candidate, timed.pairs))
            elif not self._precision.has_new_rivals():
                return trial, timed

    def _time_closest(self, trial: _Trial, ranked: Sequence[RankedRival]) -> _TimedPairs:
        """Time pairs with the first rival; with others that may be faster, where that may decide.

        Args:
            trial: Of the candidate.
            ranked: Those that trial batches cannot tell apart. All others end.

        Returns:
            The pairs with the rival over which the candidate gains least.
        """
        self._rivals.close(*(self._rivals.runners.keys() - {rival.name for rival in ranked}))
        first, *others = ranked
        least = self._time_pairs(trial, first)
        for other in others:
            if may_gain_nothing(least.pairs, least.rival, other):
                timed = self._time_pairs(trial, other)
                least = min(least, timed, key=lambda one: gain_ratio(one.pairs))
        return least

    def _time_pairs(self, trial: _Trial, rival: RankedRival) -> _TimedPairs:
        self._sizes.is_single_call = False
        candidate, runner = trial.timer, self._rivals.runners[rival.name]
        timer = self._runners.make_timer(runner)
        uses_graph = self._plan_pair(candidate, trial.times, timer, rival.times, rival.uses_graph)
        with self._precision.observe(self._runners.buffers):
            pairs = time_pairs(self._job, candidate, timer, self._runners.write_progress)
        self._runners.release_memory(runner)
        return _TimedPairs(rival, timer, uses_graph, pairs)

    def _time_again(self, candidate: RunnerTimer, pair_times: PairTimes) -> RivalTimes:
        """Time trial batches of the candidate, whose pairs did not confirm the first ones."""
        batches = pair_times["candidate_batches"]
        return self._trials.time_candidate(
            candidate, statistics.median(batch.runner_ns / batch.calls for batch in batches)
        )

    def _time_left_out(self) -> dict[str, RivalTimes]:
        """Load the rivals that were left out after all, and time them and the one that was not."""
        names, self._left_out = self._left_out, []
        self._precision.skipped = set()
        self._sizes.is_single_call = False
        self._runners.start_again(names)
        times = self._trials.compare_rivals(self._rivals.runners)
        self._precision.base_rivals += [name for name in names if name in times]
        return times

    def _plan_pair(
        self,
        candidate: RunnerTimer,
        candidate_ns: RivalTimes,
        rival: RunnerTimer,
        rival_ns: RivalTimes,
        uses_graph: bool,
    ) -> bool:
        """Plan the batches of both in the same way; return whether they are CUDA graphs."""
        shortest_ns = min(best_ns(candidate_ns), best_ns(rival_ns))
        self._sizes.is_single_call = self._sizes.is_long(shortest_ns) or candidate.shares_outputs
        planned_graph = uses_graph
        if uses_graph:
            for timer, times in ((rival, rival_ns), (candidate, candidate_ns)):
                self._runners.write_progress(timer.name)
                calls = self._sizes.calls_per_batch(times["graph_ns"] or times["eager_ns"])
                timer.plan_batches(calls, graph=uses_graph)
                uses_graph = uses_graph and timer.uses_graph
        if not uses_graph:
            for timer, times in ((rival, rival_ns), (candidate, candidate_ns)):
                timer.plan_batches(self._sizes.calls_per_batch(times["eager_ns"]), graph=False)
        self._runners.write_progress(CANDIDATE)
        candidate.time_batch()  # the first that is as long as those that count
        if candidate.shares_outputs and not self._sizes.is_single_call:
            return self._plan_pair(candidate, candidate_ns, rival, rival_ns, planned_graph)
        return uses_graph

    def _add_reduced_rivals(self) -> dict[str, RivalTimes]:
        """Start rivals at the precisions that the candidate's errors admit, and time them."""
        added = self._precision.start_new_rivals(self._runners.by_name, self._folder)
        self._runners.load_added(added)
        return self._trials.compare_rivals(added, verify=True)


def time_candidate(
    job: BenchJob, folder: Path, runners: dict[str, RunnerProcess]
) -> BenchJobResult:
    """Time the candidate against its fastest rival.

    The name of the runner that is running is in the file ``progress`` of the folder.

    Raises:
        UnsupportedHost: No runner starts here, or the memory cannot be allocated or shared.
        RuntimeError: No rival runs.
    """
    paired_bench = PairedBench(job, runners, folder)
    try:
        return {"times": paired_bench.run()}
    except IncorrectCallError as error:
        return {"incorrect_reason": str(error)}
    except (RunnerDied, RunnerError) as error:
        if error.runner_name != CANDIDATE:
            if isinstance(error, RunnerDied) and error.was_killed:
                return {"baseline_killed": f"{error.runner_name}: {error}"}
            return {"baseline_error": f"{error.runner_name}: {error}"}
        if isinstance(error, RunnerDied):
            return {"runner_died": error.to_message()}
        return {"runner_died": error.to_message("kernel-error")}
