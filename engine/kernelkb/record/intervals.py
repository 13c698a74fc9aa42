"""Prediction intervals for the learned gains and phase times, by closed formulas.

All functions work with few cases and a prior. Sums are exact (math.fsum), so the order of the
numbers does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from kernelkb.model.entries.learned import PRIOR_CASES

_INTERVAL_PRIOR_CASES = 1.0
"""Weight of the prior, in cases, in the mean and the spread of the next case's interval. With five,
a wrong prior would still dominate the interval after fifty cases, and the interval would be too
narrow after one noisy case; benchmarks/calibration_accuracy.py measures the coverage."""

MIN_SHARE, MAX_SHARE = -1.0, 2.0
"""Bounds of the share of one case: further gain or loss has another cause. With a prior of 1 they
let one case move a share by at most 1/3."""

MIN_MINUTES = 0.01
"""Least phase time in minutes: plans are no finer, and a cached step takes almost no time."""

_SHARE_STD_DEV = 0.35
"""Standard deviation of shares before any case. The quartiles of 19 published pairs of prediction
and outcome, 0.59 and 1.06 (source gpa), lie 1.35 standard deviations apart; the 80 % interval of
the model of the time gives 0.35 for a predicted 2.5x."""
_LOG_TIME_STD_DEV = 0.7
"""Prior standard deviation of the natural logarithm of minutes: a factor of two (ln 2 = 0.69)."""
_TIME_PRIOR_CASES = 2.0
"""Weight of that standard deviation, in cases."""


class WeightedShare(NamedTuple):
    """A realised share of a predicted gain, and its weight in cases."""

    share: float
    weight: float = 1.0


class SharePrediction(NamedTuple):
    """The share predicted for the next case, from the cases and the prior."""

    case_count: float
    observed_mean: float | None
    """Mean share over the cases; None without cases."""
    calibration: float
    """The share to use in predictions: the mean of the cases, shrunk toward the prior."""
    interval: tuple[float, float]
    """95 % prediction interval of the next case's share."""


def clip_share(share: float) -> float:
    """Return the share, clipped to −1 … 2."""
    return min(max(share, MIN_SHARE), MAX_SHARE)


def predict_share(prior: float, cases: Sequence[WeightedShare]) -> SharePrediction:
    """Return the shrunk share, and a prediction interval for the next case.

    The share is (n · mean + 5 · prior) / (n + 5). The interval models shares as normal with unknown
    mean and variance, under a conjugate prior (normal, inverse chi-squared) with the weight of one
    case: then the next case follows Student's t with n + 1 degrees of freedom. If the cases
    contradict the prior, the interval is wider than from the cases alone, which is conservative.
    The interval always contains the share.

    Args:
        prior: The share assumed before any case.
        cases: Clipped shares with their weights.
    """
    count = math.fsum(case.weight for case in cases)
    mean = math.fsum(case.weight * case.share for case in cases) / count if count else prior
    scatter = math.fsum(case.weight * (case.share - mean) ** 2 for case in cases)
    calibration = (count * mean + PRIOR_CASES * prior) / (count + PRIOR_CASES)
    total = count + _INTERVAL_PRIOR_CASES
    middle = (count * mean + _INTERVAL_PRIOR_CASES * prior) / total
    conflict = _INTERVAL_PRIOR_CASES * count / total * (mean - prior) ** 2
    variance = (_INTERVAL_PRIOR_CASES * _SHARE_STD_DEV**2 + scatter + conflict) / total
    reach = student_quantile(0.975, total) * math.sqrt(variance * (1 + 1 / total))
    low, high = clip_share(middle - reach), clip_share(middle + reach)
    interval = min(low, calibration), max(high, calibration)
    return SharePrediction(count, mean if count else None, calibration, interval)


def predict_minutes(minutes: Sequence[float]) -> tuple[float, float, float]:
    """Return the predicted minutes of a phase in the next session: low, point, high (80 %).

    Times are modelled as log-normal. Their spread is shrunk toward a factor of two with the weight
    of two sessions, so one session is enough for an interval.
    """
    logs = [math.log(max(value, MIN_MINUTES)) for value in minutes]
    mean = math.fsum(logs) / len(logs)
    scatter = math.fsum((value - mean) ** 2 for value in logs)
    freedom = _TIME_PRIOR_CASES + len(logs) - 1
    variance = (_TIME_PRIOR_CASES * _LOG_TIME_STD_DEV**2 + scatter) / freedom
    reach = student_quantile(0.9, freedom) * math.sqrt(variance * (1 + 1 / len(logs)))
    return math.exp(mean - reach), math.exp(mean), math.exp(mean + reach)


def wilson_interval(successes: int, count: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a success rate; 0 to 1 without a case."""
    if not count:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.975)
    rate, weight = successes / count, z * z / count
    middle = (rate + weight / 2) / (1 + weight)
    reach = z / (1 + weight) * math.sqrt(rate * (1 - rate) / count + weight / (4 * count))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def student_quantile(probability: float, degrees_of_freedom: float) -> float:
    """Return a quantile of Student's t, by its expansion around the normal quantile.

    Abramowitz and Stegun 26.7.5. For the probabilities in this module its error is at most 0.2 %
    from 3 degrees of freedom on, and 1 % from 2 on. With fewer it is too small, but then any
    interval of shares spans −1 … 2 anyway.
    """
    z = NormalDist().inv_cdf(probability)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / degrees_of_freedom**power for power, term in enumerate(terms))
