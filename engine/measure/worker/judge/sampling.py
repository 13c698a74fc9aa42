"""Which timed calls are compared with the reference: all of them would take too long."""

from __future__ import annotations

import time
from typing import Any

from kernelkb.measure.worker.judge.inputs import Tensors
from kernelkb.measure.worker.judge.runner_timer import RunnerTimer

Job = dict[str, Any]

CHECK_EVERY_PAIRS = 3
"""How often, in pairs."""
_SLOTS_PER_BATCH = 3
_SMALL_WORKING_SET_BYTES = 2**22
_TIME_SHARE = 0.4


class OutputSampler:
    """Chooses which timed calls are compared with the reference.

    Some windows always, spread over the first ones; the others as long as that takes less than
    its share of the time. Who is wrong only now and then has to be lucky every time.

    Attributes:
        judged: Calls that were compared.
        took_s: Seconds that this took.
    """

    def __init__(self, timer: RunnerTimer, job: Job) -> None:
        self._timer = timer
        self._mandatory_pairs = range(0, job["min_pairs"], CHECK_EVERY_PAIRS)
        self._max_slots = (
            _SLOTS_PER_BATCH if job["working_set_bytes"] <= _SMALL_WORKING_SET_BYTES else 1
        )
        self.checked_count = 0
        self.check_s = 0.0

    def slot_count(self, pair_index: int, elapsed_s: float) -> int:
        """Return how many slots of a pair's window to compare with the reference."""
        fully = pair_index in self._mandatory_pairs or self.check_s < _TIME_SHARE * elapsed_s
        return self._max_slots if fully else 0

    def check_batch(self, slot_outputs: dict[int, Tensors]) -> str | None:
        """Judge what a window left; say what is wrong with it."""
        began = time.monotonic()
        wrong = self._timer.find_fault(slot_outputs)
        self.checked_count += len(slot_outputs)
        self.check_s += time.monotonic() - began
        return wrong
