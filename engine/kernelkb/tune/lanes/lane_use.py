"""What the lanes of a search on several devices do, and which of them is slower than the others."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Iterable, Sequence

from kernelkb.cluster.lanes import Lane
from kernelkb.model.kernels.tuning import LaneSummary

SLOW_RATIO = 1.05
"""Chosen: cards of one model differ by 1 to 2 %; a card that is throttled or shared by more."""


class LaneUse:
    """One lane: its baseline, its trials, and for how long it was busy.

    Attributes:
        uuid: Of the device.
        model: Of the device.
        queued_count: Tasks at the lane, with the one that runs.
        left_out: Why it gets no trials; None where it does, or is being checked.
        is_waiting: It is being checked.
        is_compared: Its time was held against those of the other lanes.
        is_lost: Its worker is gone.
        check_count: How often the default was timed on it.
        samples: Times of the default on it, us; empty where that was not measured.
    """

    def __init__(self, lane: Lane) -> None:
        self.uuid, self.model, self.host = lane.uuid, lane.model, lane.host
        self.queued_count = 0
        self.left_out: str | None = None
        self.is_waiting = True
        self.is_compared = False
        self.is_lost = False
        self.check_count = 0
        self.samples: tuple[float, ...] = ()
        self._trial_count = 0
        self._busy_s = 0.0
        self._opened_at: float | None = None
        self._open_s = 0.0
        self._sent: deque[float] = deque()
        self._last_end: float | None = None
        self._queued_busy_s = 0.0
        self._gap_s = 0.0

    @property
    def is_open(self) -> bool:
        """Whether trials may go to it."""
        return self.is_compared and not self.is_waiting and self.left_out is None

    @property
    def baseline_us(self) -> float | None:
        """Time of the default on it; None where that was not measured."""
        return statistics.median(self.samples) if self.samples else None

    def finish_check(self, samples: Sequence[float]) -> None:
        """Take the times of the default on it; none: it could not be timed."""
        self.samples = tuple(samples)
        self.is_waiting, self.is_lost, self.left_out = False, False, None

    def open(self) -> None:
        """Let trials go to it."""
        if self._opened_at is None:
            self._opened_at = time.monotonic()
        self.is_compared = True

    def leave_out(self, reason: str) -> None:
        """Give it no trials any more."""
        self.stop()
        self.is_waiting, self.left_out = False, reason

    def lose(self, reason: str) -> None:
        """Note that its worker is gone."""
        self.leave_out(reason)
        self.queued_count, self.is_lost = 0, True
        self._sent.clear()
        self._last_end = None

    def rejoin(self) -> None:
        """Its worker is back, and is checked like a new one."""
        self.is_waiting, self.is_lost, self.left_out = True, False, None
        self.is_compared = False

    @property
    def mean_busy_s(self) -> float | None:
        """How long a trial takes on average; None before one has ended."""
        return self._busy_s / self._trial_count if self._trial_count else None

    def add(self) -> None:
        """Count a task that was sent to it."""
        self.queued_count += 1
        self._sent.append(time.time())

    def remove(self, trial_count: int, span: tuple[float, float] | None) -> None:
        """Count a task that has ended.

        Args:
            trial_count: Its trials.
            span: When it began and ended, by the clock of its host; None: it did not end well.
        """
        self.queued_count = max(0, self.queued_count - 1)
        sent = self._sent.popleft() if self._sent else None
        self._trial_count += trial_count
        if span is None:
            self._last_end = None
            return
        began, ended = span
        self._busy_s += ended - began
        if self._last_end is not None and sent is not None and sent < self._last_end:
            self._queued_busy_s += ended - began
            self._gap_s += max(0.0, began - self._last_end)
        self._last_end = ended

    def stop(self) -> None:
        """End the time during which it could be busy."""
        if self._opened_at is not None:
            self._open_s += time.monotonic() - self._opened_at
        self._opened_at = None

    def summarize(self) -> LaneSummary:
        """Return what the result says of it."""
        queued_s = self._queued_busy_s + self._gap_s
        return LaneSummary(
            uuid=self.uuid,
            host=self.host,
            model=self.model,
            baseline_us=self.baseline_us,
            trial_count=self._trial_count,
            available_s=round(self._open_s, 3),
            busy_share=min(1.0, self._busy_s / self._open_s) if self._open_s else 0.0,
            busy_share_while_queued=self._queued_busy_s / queued_s if queued_s else None,
            left_out=self.left_out,
        )


def find_slow_lanes(lanes: Iterable[LaneUse]) -> dict[str, str]:
    """Return the lanes on which the default fails, or is slower beyond the spread of its times.

    Args:
        lanes: All of one model.

    Returns:
        Why, by UUID.
    """
    checked = [lane for lane in lanes if not lane.is_waiting and lane.left_out is None]
    timed = [lane for lane in checked if lane.samples]
    if not timed:
        return {}
    slow = {lane.uuid: "the default cannot be timed on it" for lane in checked if not lane.samples}
    fastest = min(timed, key=lambda lane: statistics.median(lane.samples))
    best_us = statistics.median(fastest.samples)
    for lane in timed:
        ratio = statistics.median(lane.samples) / best_us
        if ratio > SLOW_RATIO and _get_quartile(lane, 0) > _get_quartile(fastest, 2):
            slow[lane.uuid] = f"slow: {ratio:.2f} times the default's time on {fastest.uuid}"
    return slow


def _get_quartile(lane: LaneUse, index: int) -> float:
    if len(lane.samples) < 2:
        return lane.samples[0]
    return statistics.quantiles(lane.samples, n=4)[index]
