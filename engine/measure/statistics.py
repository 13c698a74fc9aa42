"""Paired times → speedup with an interval, and a verdict."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from math import exp, log
from typing import Literal, NamedTuple

_RESAMPLES = 2000
_MIN_EFFECT = 0.01  # nobody can tell less than one per cent from a few dozen pairs


class Speedup(NamedTuple):
    """Reference time over candidate time."""

    point: float
    low: float
    high: float


def paired_speedup(candidate: Sequence[float], reference: Sequence[float]) -> Speedup:
    """Return the median of the paired ratios with its 95 % bootstrap interval.

    Args:
        candidate: Times in any unit; entry i was taken next to entry i of ``reference``.
        reference: As many times, all above zero.
    """
    logs = [log(r / c) for c, r in zip(candidate, reference, strict=True)]
    draw = random.Random(0).choices  # the interval of the same times is always the same
    medians = sorted(statistics.median(draw(logs, k=len(logs))) for _ in range(_RESAMPLES))
    low, high = medians[int(0.025 * _RESAMPLES)], medians[int(0.975 * _RESAMPLES) - 1]
    return Speedup(exp(statistics.median(logs)), exp(low), exp(high))


def decide_verdict(speedup: Speedup) -> Literal["faster", "slower", "inconclusive"]:
    """Return faster or slower only where the whole interval says so."""
    if speedup.low > 1 + _MIN_EFFECT:
        return "faster"
    if speedup.high < 1 - _MIN_EFFECT:
        return "slower"
    return "inconclusive"
