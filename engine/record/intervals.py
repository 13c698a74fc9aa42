"""Where the next case lies: the statistics behind what is learned, each by a closed formula.

All take few numbers and a prior. They sum exactly, so the order of the numbers does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

PRIOR_CASES = 5.0
"""How many cases the prior counts for in the share that predictions use."""

_INTERVAL_PRIOR_CASES = 1.0
"""How many it counts for in the interval of the next case, in mean and in spread. With five, the
interval would hold on to a wrong prior through fifty cases, and noise would look like knowledge
after one; benchmarks/calibration_accuracy.py has the coverage."""

MIN_SHARE, MAX_SHARE = -1.0, 1.0
"""What one case may say of a share. An estimate is all that its mechanism can give, so whatever
came beyond it came from something else. One case moves a share that was 0.8 by at most 0.3."""

MIN_MINUTES = 0.01
"""Nobody plans in less; a cached step takes any small time."""

_SHARE_STD_DEV = 0.35
"""Standard deviation of shares before any case. The quartiles of 19 published pairs of prediction
and outcome, 0.59 and 1.06 (source gpa), lie 1.35 standard deviations apart."""
_LOG_TIME_STD_DEV = 0.7
"""Of the logarithm of minutes: a factor of two, until the cases say better."""
_TIME_PRIOR_CASES = 2.0
"""How many cases that spread counts for."""


class WeightedShare(NamedTuple):
    """A share that was realised, and which part of a case it is."""

    share: float
    weight: float = 1.0


class SharePrediction(NamedTuple):
    """What cases and prior together say of the next case."""

    case_count: float
    observed_mean: float | None
    """Mean over the cases; None without one."""
    calibration: float
    interval: tuple[float, float]
    """Of the next case, 95 %."""


def clip_share(share: float) -> float:
    """Return the share, or the nearest that one case may say."""
    return min(max(share, MIN_SHARE), MAX_SHARE)


def predict_share(prior: float, cases: Sequence[WeightedShare]) -> SharePrediction:
    """Return the shrunk share, and a predictive interval for the next case.

    The share is (n · mean + 5 · prior) / (n + 5). The interval takes shares for normal with unknown
    mean and variance, under a conjugate prior (normal, inverse chi-squared) that counts for one
    case: then the next case follows Student's t with n + 1 degrees of freedom. Where cases
    contradict the prior, it is wider than they alone would make it, so it errs to the safe side. It
    always holds the share.

    Args:
        prior: The share that is taken for granted before any case.
        cases: Shares, clipped.
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
    """Return how long a phase takes in the next session: low, point, high, 80 %.

    Times are log-normal; their scatter is shrunk toward a factor of two, which counts for two
    sessions, so one session gives an interval too.
    """
    logs = [math.log(max(value, MIN_MINUTES)) for value in minutes]
    mean = math.fsum(logs) / len(logs)
    scatter = math.fsum((value - mean) ** 2 for value in logs)
    freedom = _TIME_PRIOR_CASES + len(logs) - 1
    variance = (_TIME_PRIOR_CASES * _LOG_TIME_STD_DEV**2 + scatter) / freedom
    reach = student_quantile(0.9, freedom) * math.sqrt(variance * (1 + 1 / len(logs)))
    return math.exp(mean - reach), math.exp(mean), math.exp(mean + reach)


def wilson_interval(successes: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate by Wilson's score; 0 to 1 without a case."""
    if not count:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.975)
    rate, weight = successes / count, z * z / count
    middle = (rate + weight / 2) / (1 + weight)
    reach = z / (1 + weight) * math.sqrt(rate * (1 - rate) / count + weight / (4 * count))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def student_quantile(probability: float, degrees_of_freedom: float) -> float:
    """Return a quantile of Student's t, by its expansion around the normal one.

    Abramowitz and Stegun 26.7.5. For the probabilities that stand here it is right to 0.2 % from 3
    degrees of freedom on, to 1 % from 2 on; with fewer it is too small, and any interval of shares
    spans all that a case may say.
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
