"""Paired bootstrap: speedup with its 95 % interval from paired times, and the verdict."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple

from kernelkb.model.records.measurement import TimedVerdict

_RESAMPLES = 2000
_MIN_EFFECT = 0.01
"""Relative difference of 1 %: a few dozen pairs cannot resolve less."""


class Speedup(NamedTuple):
    """Baseline time over candidate time: above 1 the candidate is faster."""

    point: float
    """Median of the paired ratios."""
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end."""


def paired_speedup(candidate: Sequence[float], baseline: Sequence[float]) -> Speedup:
    """Return the median of the paired ratios with its 95 % percentile bootstrap interval.

    Deterministic: the same times give the same interval.

    Args:
        candidate: Times in any unit, above zero; entry i was timed just before or after entry i of
            ``baseline``.
        baseline: As many times, above zero.
    """
    log_ratios = [log(b / c) for c, b in zip(candidate, baseline, strict=True)]
    resample = random.Random(0).choices
    count = len(log_ratios)
    medians = sorted(statistics.median(resample(log_ratios, k=count)) for _ in range(_RESAMPLES))
    low, high = medians[int(0.025 * _RESAMPLES)], medians[int(0.975 * _RESAMPLES) - 1]
    return Speedup(exp(statistics.median(log_ratios)), exp(low), exp(high))


def decide_verdict(speedup: Speedup) -> TimedVerdict:
    """Return faster or slower if the whole interval is more than 1 % on that side of 1."""
    if speedup.low > 1 + _MIN_EFFECT:
        return "faster"
    if speedup.high < 1 - _MIN_EFFECT:
        return "slower"
    return "inconclusive"
