"""Which timed calls are compared with the reference: all of them would take too long."""

from __future__ import annotations

import time
from typing import Any

from kernelkb.measure.worker.judge.inputs import Tensors
from kernelkb.measure.worker.judge.runner_timer import Side

Job = dict[str, Any]

EVERY = 3
"""How often, in pairs."""
_SLOTS = 3
_SMALL = 2**22
_SHARE = 0.4


class Review:
    """Chooses which timed calls are compared with the reference.

    Some windows always, spread over the first ones; the others as long as that takes less than
    its share of the time. Who is wrong only now and then has to be lucky every time.

    Attributes:
        judged: Calls that were compared.
        took_s: Seconds that this took.
    """

    def __init__(self, side: Side, job: Job) -> None:
        self._side = side
        self._always = range(0, job["min_pairs"], EVERY)
        self._most = _SLOTS if job["working_set_bytes"] <= _SMALL else 1
        self.judged = 0
        self.took_s = 0.0

    def slots(self, at: int, elapsed_s: float) -> int:
        """Return how many slots of a pair's window to compare with the reference."""
        fully = at in self._always or self.took_s < _SHARE * elapsed_s
        return self._most if fully else 0

    def of(self, made: dict[int, Tensors]) -> str | None:
        """Judge what a window left; say what is wrong with it."""
        began = time.monotonic()
        wrong = self._side.judged(made)
        self.judged += len(made)
        self.took_s += time.monotonic() - began
        return wrong
