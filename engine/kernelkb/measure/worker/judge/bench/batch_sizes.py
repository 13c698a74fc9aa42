"""Decides how many calls make a batch, and when a batch is one call."""

from __future__ import annotations

from kernelkb.measure.worker.shared.messages.judge_jobs import BenchJob

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
