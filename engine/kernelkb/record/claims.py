"""What a record claims and what its samples give: an id is a hash without a key, so it proves none.

A judge may widen an interval by what its clock cannot measure, and draws its resamples in its own
way; a claim is false where it is better than the samples allow.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import ceil, exp, log, sqrt
from statistics import median

from kernelkb.errors import KbError
from kernelkb.model.records.history import AttemptEvent, AttemptId, Measurement, Promotion
from kernelkb.model.records.measurement import is_valid
from kernelkb.record.attempt_store import AttemptStore
from kernelkb.record.measurements.compare import compute_comparison
from kernelkb.record.measurements.regression_gate import get_place
from kernelkb.record.measurements.store import Store
from kernelkb.units import format_duration

_ROUNDING = 1e-3
"""Relative difference of a claim that is the same number."""
_NARROWEST = 0.7
"""Times the root of the count of pairs: how many ranks from the middle one an interval reaches at
least. A 95 % interval of the median reaches 0.98 of it, and resampling varies by a few ranks."""
_MAX_BACK = 20
"""States before among which one that was timed is looked for."""


def find_false_claim(one: Measurement) -> str | None:
    """Return what a measurement claims and its samples do not give; None where they give all."""
    if not one.samples:
        if is_valid(one.verdict) or one.speedup is not None or one.interval is not None:
            return "claims a verdict and has no samples"
        return None
    if min(map(min, one.samples)) <= 0:
        return "has samples of no time"
    time_us = median(candidate for candidate, _ in one.samples)
    logs = sorted(log(baseline / candidate) for candidate, baseline in one.samples)
    speedup = exp(median(logs))
    reach = max(0, ceil(len(logs) / 2 - 0.5 - _NARROWEST * sqrt(len(logs))))
    narrowest = exp(logs[reach]), exp(logs[-1 - reach])
    claims = {
        (one.candidate_us, time_us),
        (one.metrics.get("kernel_us"), time_us),
        (one.baseline_us, time_us * speedup),
        (one.speedup, speedup),
        (one.metrics.get("speedup"), speedup),
    }
    same = all(claim is None or _is_same(claim, found) for claim, found in claims)
    if not (same and _holds(one.interval, narrowest) and _follows(one.verdict, one.interval)):
        return (
            f"claims {_describe(one.verdict, one.candidate_us, one.speedup, one.interval)}; its "
            f"samples give {_describe(None, time_us, speedup, narrowest)}"
        )
    return None


def _is_same(claim: float, found: float) -> bool:
    return abs(claim - found) <= _ROUNDING * abs(found)


def _holds(claim: tuple[float, float] | None, narrowest: tuple[float, float]) -> bool:
    """Return whether a claimed interval is at least as wide as another."""
    if claim is None:
        return True
    low, high = narrowest
    return claim[0] <= low * (1 + _ROUNDING) and claim[1] >= high * (1 - _ROUNDING)


def _follows(verdict: str | None, interval: tuple[float, float] | None) -> bool:
    """Return whether an interval lies on the side that a verdict names."""
    if verdict not in ("faster", "slower"):
        return True
    if interval is None:
        return False
    return interval[0] > 1 if verdict == "faster" else interval[1] < 1


def _describe(
    verdict: str | None,
    time_us: float | None,
    speedup: float | None,
    interval: tuple[float, float] | None,
) -> str:
    parts = [format_duration(time_us)] if time_us else []
    if speedup is not None:
        parts.append(f"{speedup:.3g}x")
    if interval is not None:
        parts.append(f"[{interval[0]:.3g}, {interval[1]:.3g}]")
    return " ".join([*parts, *([verdict] if verdict else [])])


def find_false_event(event: AttemptEvent, store: Store) -> str | None:
    """Return what an event claims and its measurement does not say; None where it says all.

    Args:
        event: Of an attempt.
        store: Holds the measurement.
    """
    claimed = (event.candidate_us, event.speedup, event.interval)
    if not is_valid(event.verdict) and claimed == (None, None, None):
        return None
    one = _find_measurement(store, event.measurement)
    if one is None:
        return "claims a time, and its measurement is not there"
    said = (one.candidate_us, one.speedup, one.interval, one.verdict, one.subject.kernel)
    where = one.subject.workload, one.subject.device
    if (*claimed, event.verdict, event.kernel) != said or (event.workload, event.device) != where:
        return f"claims what its measurement {one.id[:8]} does not say"
    return None


def find_false_promotion(promotion: Promotion, store: Store) -> str | None:
    """Return what a promotion claims and its measurements do not give; None if they give all."""
    new = _find_measurement(store, promotion.measurement)
    if new is None or get_place(new) != promotion.place:
        return f"promotes {promotion.measurement[:8]}, which was not measured there"
    if promotion.ratio is None and promotion.interval is None:
        return None
    old = _find_measurement(store, promotion.previous)
    if old is None or not _gives(old, new, promotion.ratio, promotion.interval):
        return f"claims a gain that {promotion.measurement[:8]} does not have"
    return None


def find_false_outcome(event: AttemptEvent, attempts: AttemptStore, store: Store) -> str | None:
    """Return what an outcome claims and no two benches give; None where they give it.

    Args:
        event: The outcome.
        attempts: Holds the attempt, those before it, and their benches.
        store: Holds the measurements.
    """
    outcome = event.outcome
    if outcome is None or (outcome.measured is None and outcome.interval is None):
        return None
    line = attempts.list_ancestors(outcome.parent)[:_MAX_BACK]
    before, now = _list_benches(attempts, line), _list_benches(attempts, [event.attempt])
    if outcome.measured == 1 and set(before) & set(now):  # the record answered for equal code
        return None
    for names in product(before, now):
        old, new = (_find_measurement(store, name) for name in names)
        if old and new and _gives(old, new, outcome.measured, outcome.interval):
            return None
    return "claims a gain that no two of its benches give"


def _list_benches(attempts: AttemptStore, ids: Iterable[AttemptId]) -> list[str]:
    events = attempts.list_events(ids)
    return [one.measurement for one in events if one.kind == "bench" and one.measurement]


def _gives(
    old: Measurement,
    new: Measurement,
    ratio: float | None,
    interval: tuple[float, float] | None,
) -> bool:
    """Return whether two measurements give a claimed gain; without an interval by their times."""
    if ratio is None:
        return False
    if interval is None:
        times = old.candidate_us, new.candidate_us
        return bool(times[0] and times[1] and _is_same(ratio, times[0] / times[1]))
    found = compute_comparison(old, new)
    if found.ratio is None or found.interval is None:
        return False
    return _is_same(ratio, found.ratio) and _holds(interval, found.interval)


def _find_measurement(store: Store, name: str | None) -> Measurement | None:
    try:
        return store.get(name or "")
    except KbError:
        return None
