"""Trial batches: how long a call takes, and how many calls a batch has."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from kernelkb.measure.worker.judge.bench.bench_runners import CANDIDATE, BenchRunners
from kernelkb.measure.worker.judge.bench.rival_precision import RivalPrecision
from kernelkb.measure.worker.judge.timing.pair_timing import IncorrectCallError
from kernelkb.measure.worker.judge.timing.runner_timer import RunnerTimer
from kernelkb.measure.worker.shared.messages.judge_jobs import BenchJob, RivalTimes

_LONG_CALL_NS = {"cpu": 5e5, "cuda": 1e6}
"""A batch is one call from here on: some ten times the judge's round trip."""
_GUARD_BYTES = 4096
"""Guard regions of one slot, at most, per array."""
_MIN_SLOTS = 4
"""Where memory allows it."""


class BatchSizes:
    """Sizes of the batches of one bench.

    Attributes:
        is_single_call: Whether each batch is one call.
    """

    def __init__(self, job: BenchJob) -> None:
        self._job = job
        self.is_single_call = False

    def is_long(self, call_ns: float) -> bool:
        """Return whether calls of some nanoseconds are timed one by one."""
        return call_ns >= _LONG_CALL_NS[self._job["target"]]

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


_PROBE_BATCHES = 3
"""Batches to estimate the time of a call, before the batch size is known."""
_TRIAL_BATCHES = 5
"""Batches to rank rivals, and to choose the batch size."""


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
        """Return the time of copies of one call's outputs; None where nothing is copied."""
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
