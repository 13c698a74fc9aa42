"""What the lanes of a search on several devices do, and which of them is slower than the others."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence

from kernelkb.cluster.lanes import Lane
from kernelkb.model.tuning_outcome import LaneSummary

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
        is_lost: Its worker is gone.
        check_count: How often the default was timed on it.
        samples: Times of the default on it, us; empty where that was not measured.
    """

    def __init__(self, lane: Lane) -> None:
        self.uuid, self.model, self.host = lane.uuid, lane.model, lane.host
        self.queued_count = 0
        self.left_out: str | None = None
        self.is_waiting = True
        self.is_lost = False
        self.check_count = 0
        self.samples: tuple[float, ...] = ()
        self._trial_count = 0
        self._busy_s = 0.0
        self._opened_at: float | None = None
        self._open_s = 0.0
        self._idle_since: float | None = None
        self._starved_s = 0.0

    @property
    def is_open(self) -> bool:
        """Whether trials may go to it."""
        return not self.is_waiting and self.left_out is None

    @property
    def baseline_us(self) -> float | None:
        """Time of the default on it; None where that was not measured."""
        return statistics.median(self.samples) if self.samples else None

    def open(self, samples: Sequence[float] | None) -> None:
        """Let trials go to it."""
        self.samples = tuple(samples or ())
        self.is_waiting, self.is_lost, self.left_out = False, False, None
        self._opened_at = self._idle_since = time.monotonic()

    def leave_out(self, reason: str) -> None:
        """Give it no trials any more."""
        self.stop()
        self.is_waiting, self.left_out = False, reason

    def lose(self, reason: str) -> None:
        """Note that its worker is gone."""
        self.leave_out(reason)
        self.queued_count, self.is_lost = 0, True

    def rejoin(self) -> None:
        """Its worker is back, and is checked like a new one."""
        self.is_waiting, self.is_lost, self.left_out = True, False, None

    @property
    def mean_busy_s(self) -> float | None:
        """How long a trial takes on average; None before one has ended."""
        return self._busy_s / self._trial_count if self._trial_count else None

    def add(self) -> None:
        """Count a task that was sent to it."""
        self.queued_count += 1
        if self._idle_since is not None:
            self._starved_s += time.monotonic() - self._idle_since
            self._idle_since = None

    def remove(self, trial_count: int, busy_s: float) -> None:
        """Count a task that has ended.

        Args:
            trial_count: Its trials.
            busy_s: How long the lane was busy with them.
        """
        self.queued_count = max(0, self.queued_count - 1)
        self._trial_count += trial_count
        self._busy_s += busy_s
        if not self.queued_count:
            self._idle_since = time.monotonic()

    def stop(self) -> None:
        """End the time during which it could be busy."""
        now = time.monotonic()
        if self._opened_at is not None:
            self._open_s += now - self._opened_at
        if self._idle_since is not None:
            self._starved_s += now - self._idle_since
        self._opened_at = self._idle_since = None

    def summarize(self) -> LaneSummary:
        """Return what the result says of it."""
        fed_s = self._open_s - self._starved_s
        return LaneSummary(
            uuid=self.uuid,
            host=self.host,
            model=self.model,
            baseline_us=self.baseline_us,
            trial_count=self._trial_count,
            available_s=round(self._open_s, 3),
            busy_share=min(1.0, self._busy_s / self._open_s) if self._open_s else 0.0,
            busy_share_while_queued=min(1.0, self._busy_s / fed_s) if fed_s > 0 else None,
            left_out=self.left_out,
        )


def find_slow_lanes(lanes: Iterable[LaneUse]) -> dict[str, str]:
    """Return the lanes on which the default fails, or is slower beyond the spread of its times.

    Args:
        lanes: All of one model.

    Returns:
        Why, by UUID.
    """
    opened = [lane for lane in lanes if lane.is_open]
    timed = [lane for lane in opened if lane.samples]
    if not timed:
        return {}
    slow = {lane.uuid: "the default cannot be timed on it" for lane in opened if not lane.samples}
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
