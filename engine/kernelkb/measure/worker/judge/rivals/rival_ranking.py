"""Ranks rivals by their trial batches: the fastest, and those that may be faster."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import NamedTuple

from kernelkb.measure.worker.judge.timing.plain_answers import sort_ratios
from kernelkb.measure.worker.shared.messages.judge_jobs import PairTimes, RivalTimes

_TRIAL_ERROR = 0.03
"""Of a few batches, relative; chosen. Rivals that are closer may be in the other order."""
_LEAST_GAIN = 1.005
"""A candidate is called faster from 1.01 on."""


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
