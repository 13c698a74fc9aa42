"""Predicts what curing a bottleneck would gain, as a share of time removed or as a speedup."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernelkb.decide.estimators import ESTIMATORS

if TYPE_CHECKING:
    from kernelkb.decide.rules import EstimateRow, GainRow
    from kernelkb.model.recommendation import PredictedSpeedup


_WORK_CHANGING_KINDS = frozenset({"traffic", "launch"})
_WORK_PRESERVING_KINDS = frozenset({"parallelism", "latency-hiding", "barrier"})

_MAX_SHARE = 0.999
"""Largest share of the time that a prediction removes; 1 would be a kernel without duration."""


def predict_removed_share(
    gain: GainRow | None,
    known: Mapping[str, float],
    realization: Mapping[str, Sequence[float]],
    interval_factor: float = 1.0,
    learned: Sequence[float] | None = None,
) -> tuple[float, float, float] | None:
    """Return the calibrated fraction of time removed as low, point, high, or None if unknown.

    Args:
        gain: The estimates, which of them to take, and their kind; None without an estimate.
        known: Measured and derived metrics, with device facts.
        realization: For each kind of gain the share of a predicted saving that is realised
            usually, and at worst.
        interval_factor: How many times wider than usual the interval is.
        learned: Shares learned from sessions, used instead: usual, worst and best.

    A known roofline floor limits the estimate, except for changes that remove work or launches and
    so lower the floor itself.
    """
    if gain is None:
        return None
    raw = [
        value for row in gain["estimates"] if (value := _evaluate_estimate(row, known)) is not None
    ]
    if not raw:
        return None
    taken = {"smallest": min(raw), "largest": max(raw), "first": raw[0]}[gain["take"]]
    cap = min(_max_removable_share(gain["kind"], known), _MAX_SHARE)
    whole = max(0.0, min(taken, cap))
    usual, worst, best = learned or (*realization[gain["kind"]], 1.0)
    low, point, high = worst * whole, usual * whole, best * whole
    return (
        max(0.0, point - interval_factor * (point - low)),
        point,
        max(point, min(point + interval_factor * (high - point), cap)),
    )


def _evaluate_estimate(row: EstimateRow, known: Mapping[str, float]) -> float | None:
    given: dict[str, float] = {}
    for name, quantity in row["inputs"].items():
        value = known.get(quantity) if isinstance(quantity, str) else quantity
        if value is None:
            return None
        given[name] = value
    return ESTIMATORS[row["estimator"]](**given)


def _max_removable_share(kind: str, known: Mapping[str, float]) -> float:
    """Return the largest share of the time that a fix of this kind can remove.

    It is the time above the roofline floor, unless the fix changes the work and so the floor. If
    no floor is known, a fix that keeps the work can gain no more than the idle share of the
    busiest unit [E2].
    """
    attainable = known.get("attainable_speedup")
    if attainable is not None and kind not in _WORK_CHANGING_KINDS:
        return 1 - 1 / attainable if attainable > 1 else 0.0
    sm, memory = known.get("sm_utilization"), known.get("memory_utilization")
    if (
        attainable is None
        and kind in _WORK_PRESERVING_KINDS
        and sm is not None
        and memory is not None
    ):
        return max(0.0, 1 - max(sm, memory))
    return _MAX_SHARE


def as_speedup(removed: tuple[float, float, float]) -> PredictedSpeedup:
    """Return the speedups for shares of time removed (low, point, high): s = 1 / (1 - p)."""
    low, point, high = (round(1 / (1 - p), 3) for p in removed)
    return {"low": low, "point": point, "high": high}


def combine_removed_shares(
    removed: Mapping[str, tuple[float, float, float]],
) -> tuple[float, float, float]:
    """Return the share of time that the fixes of several groups remove together: 1 - Π(1 - p).

    Args:
        removed: Low, point and high share of time removed, by group.
    """
    low, point, high = (
        1 - math.prod(1 - interval[at] for interval in removed.values()) for at in range(3)
    )
    return low, point, high
