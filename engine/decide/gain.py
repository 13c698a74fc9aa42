"""What a fix would save: the fraction of the kernel's time that goes away.

Numbers in brackets are rows of the estimator library: ncu's own rules, GPA's latency-hiding model
(Zhou et al., CGO 2021) and arithmetic. Every estimator returns None when an input is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from engine.decide.answer import PredictedSpeedup
from engine.decide.conditions import limit_of
from engine.decide.program import GainRow

_MOVES_THE_ROOF = frozenset({"traffic", "launch"})

_MOST = 0.999
"""A fraction of 1 would mean a kernel that takes no time."""


def predict(
    gain: GainRow | None,
    known: Mapping[str, float],
    realised: Mapping[str, Sequence[float]],
) -> tuple[float, float, float] | None:
    """Return the calibrated fraction of time removed as low, point, high, or None if unknown.

    Args:
        gain: The estimator, its inputs and the calibration row.
        known: Metrics, completed.
        realised: For each calibration row the share of a predicted saving that is realised
            usually, and at worst.

    No estimate goes beyond the roofline floor, where that is known, except of changes that remove
    work or calls, for which the floor does not hold.
    """
    if gain is None:
        return None
    inputs = {name: limit_of(value, known) for name, value in gain["inputs"].items()}
    if any(value is None for value in inputs.values()):
        return None
    given = {name: value for name, value in inputs.items() if value is not None}
    raw = ESTIMATORS[gain["estimator"]](**given)
    high = max(0.0, min(raw, _cap(gain["kind"], known), _MOST))
    usual, worst = realised[gain["kind"]]
    return worst * high, usual * high, high


def _cap(kind: str, known: Mapping[str, float]) -> float:
    """Return the fraction of time above the roof; what changes the work moves the roof itself."""
    attainable = known.get("attainable_speedup")
    if attainable is None or kind in _MOVES_THE_ROOF:
        return _MOST
    return 1 - 1 / attainable if attainable > 1 else 0.0


def as_speedup(removed: tuple[float, float, float]) -> PredictedSpeedup:
    """Turn fractions of time removed into speedups: s = 1 / (1 - p)."""
    low, point, high = (round(1 / (1 - p), 3) for p in removed)
    return {"low": low, "point": point, "high": high}


def combine(removed: Mapping[str, tuple[float, float, float]]) -> tuple[float, float, float]:
    """Combine fractions across mechanism groups: 1 - Π(1 - p). One entry for each group."""
    low, point, high = (
        1 - math.prod(1 - interval[at] for interval in removed.values()) for at in range(3)
    )
    return low, point, high


def _amdahl(*, fraction: float, factor: float) -> float:
    """Speed a fraction of the time up by a factor [E0]."""
    return fraction * (1 - 1 / factor) if factor > 0 else 0.0


def _roofline(*, attainable: float) -> float:
    """Reach the roof [E1]."""
    return 1 - 1 / attainable if attainable > 0 else 0.0


def _traffic(*, utilization: float, ratio: float) -> float:
    """Move fewer bytes through a level; ratio is bytes now over bytes then [E3]."""
    return utilization * (1 - 1 / ratio) if ratio > 0 else 0.0


def _stall(*, share: float, issue: float, sm: float, memory: float) -> float:
    """Remove one stall reason, never more than the empty issue slots or the headroom [E4, E5]."""
    return min(1 - issue, 1 - max(sm, memory), share)


def _latency_hiding(*, active: float, wanted: float, latency: float) -> float:
    """Go from ``active`` to ``wanted`` warps per scheduler; saturates [E8, GPA]."""
    idle = 1 - 1 / latency if latency > 1 else 0.0
    reached = 1 - idle**wanted
    return 1 - (1 - idle**active) / reached if wanted > active and reached > 0 else 0.0


def _wave_tail(*, waves: float) -> float:
    """Fill the last wave [E9]."""
    return 1 - waves / math.ceil(waves) if waves > 0 else 0.0


def _small_grid(*, grid: float, sms: float, waves: float) -> float:
    """Occupy every SM, then every slot [E10]."""
    return 1 - grid / sms if grid < sms else max(0.0, 1 - waves)


def _conflicts(*, share: float, utilization: float) -> float:
    """Remove replayed shared-memory wavefronts [E12]."""
    return share * utilization


def _sectors(*, useful_bytes: float, utilization: float) -> float:
    """Use every byte of every 32-byte sector [E13]."""
    return (1 - useful_bytes / 32) * utilization


def _local_memory(*, share: float) -> float:
    """Remove local-memory instructions [E18]."""
    return share


def _launch_gap(*, gap: float, call: float) -> float:
    """Shrink the gap between launches to 1 µs, a CUDA-graph node's [E20]."""
    return max(0.0, gap - 1.0) / call if call > 0 else 0.0


def _halved_bytes(*, utilization: float) -> float:
    """Store half as many bytes an element [E22]."""
    return utilization * 0.5


def _parallelize(*, busy: float, cores: float) -> float:
    """Go from ``busy`` cores to all of them, perfectly [E0]."""
    return 1 - busy / cores if cores > busy else 0.0


def _vectorize(*, lanes: float) -> float:
    """Do ``lanes`` elements in each instruction instead of one [E0]."""
    return 1 - 1 / lanes if lanes > 1 else 0.0


ESTIMATORS: dict[str, Callable[..., float]] = {
    "amdahl": _amdahl,
    "roofline": _roofline,
    "traffic": _traffic,
    "stall": _stall,
    "latency-hiding": _latency_hiding,
    "wave-tail": _wave_tail,
    "small-grid": _small_grid,
    "conflicts": _conflicts,
    "sectors": _sectors,
    "local-memory": _local_memory,
    "launch-gap": _launch_gap,
    "halved-bytes": _halved_bytes,
    "parallelize": _parallelize,
    "vectorize": _vectorize,
}
"""By the name that ``gain.estimator`` uses in the knowledge files."""
