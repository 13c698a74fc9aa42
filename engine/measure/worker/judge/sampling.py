"""Chooses which timed calls are compared with the reference: all would take too long."""

from __future__ import annotations

import time

from kernelkb.measure.worker.judge.inputs import Tensors
from kernelkb.measure.worker.judge.runner_timer import RunnerTimer
from kernelkb.measure.worker.shared.messages.judge_jobs import BenchJob

CHECK_EVERY_PAIRS = 3
"""Of the first ``min_pairs`` pairs, every third is compared."""
_SLOTS_PER_BATCH = 3
_SMALL_WORKING_SET_BYTES = 2**22
"""Cases up to 4 MiB are compared on three slots per batch, larger ones on one."""
_TIME_SHARE = 0.4
"""Share of the elapsed time that comparisons beyond the mandatory ones may take."""


class OutputSampler:
    """Samples timed calls at random, within a share of the time.

    Attributes:
        checked_count: Calls that were compared.
        check_s: Seconds that comparing took.
    """

    def __init__(self, timer: RunnerTimer, job: BenchJob) -> None:
        self._timer = timer
        self._mandatory_pairs = range(0, job["min_pairs"], CHECK_EVERY_PAIRS)
        is_small = job["working_set_bytes"] <= _SMALL_WORKING_SET_BYTES
        self._max_slots = _SLOTS_PER_BATCH if is_small else 1
        self.checked_count = 0
        self.check_s = 0.0

    def slot_count(self, pair_index: int, elapsed_s: float) -> int:
        """Return how many slots of a pair's batch to compare with the reference."""
        has_time = self.check_s < _TIME_SHARE * elapsed_s
        return self._max_slots if has_time or pair_index in self._mandatory_pairs else 0

    def check_batch(self, slot_outputs: dict[int, Tensors]) -> str | None:
        """Compare the outputs that a batch left; report what is wrong with them."""
        start = time.monotonic()
        fault = self._timer.find_fault(slot_outputs)
        self.checked_count += len(slot_outputs)
        self.check_s += time.monotonic() - start
        return fault
