"""Adds up the judge's own time by the steps of a bench."""

from __future__ import annotations

import time


class StepClock:
    """Seconds of each step; every moment between two calls of ``finish`` belongs to one step.

    Attributes:
        seconds: By step, in the order in which they were finished first.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._finished_at = time.monotonic()

    def restart(self) -> None:
        """Forget the time so far: it belongs to no step."""
        self._finished_at = time.monotonic()

    def finish(self, step: str) -> None:
        """Add the time since the last call, or since the start, to a step."""
        now = time.monotonic()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._finished_at
        self._finished_at = now

    def move(self, from_step: str, to_step: str, seconds: float) -> None:
        """Count seconds of a finished step as another step's."""
        self.seconds[from_step] -= seconds
        self.seconds[to_step] = self.seconds.get(to_step, 0.0) + seconds
