"""Compares the outcomes of two sessions: differences by metric, and the ratio of speedups."""

from __future__ import annotations

from kernelkb.model.records.outcome import (
    AchievedSpeedup,
    MetricDifference,
    SessionComparison,
    SessionOutcome,
)
from kernelkb.record.outcomes import comparison_key

_COUNT_METRICS = (
    "minutes",
    "minutes_to_build",
    "minutes_to_bottleneck",
    "changes",
    "blind_changes",
    "wrong_changes",
    "cost_usd",
    "decisions",
    "inside",
    "falsifiers_held",
    "falsifiers_failed",
    "false_claims",
)
_COMPARISON_KEYS = ("kernel", "target", "machine", "baseline", "workload")


def compare_outcomes(before: SessionOutcome, after: SessionOutcome) -> SessionComparison:
    """Return the difference in each metric, and the ratio of the final speedups.

    Speedups are compared only if kernel, target, machine, baseline and workload are the same and
    both were measured and checked. The result has the ratio with its interval, or the reason why
    there is none.
    """
    rows = [
        _contrast_row(name, getattr(before, name), getattr(after, name)) for name in _COUNT_METRICS
    ]
    why_not = _incomparable_reason(before, after)
    speedups = [
        ("final_speedup", _get_speedup(before.final), _get_speedup(after.final)),
        ("best_speedup", _get_speedup(before.best), _get_speedup(after.best)),
    ]
    rows += [_contrast_row(*speedup, incomparable=bool(why_not)) for speedup in speedups]
    sides = SessionComparison(before=before, after=after, rows=tuple(rows), why_not=why_not)
    old, new = before.final, after.final
    if why_not or not (old and new and old.interval and new.interval):
        return sides
    interval = (new.interval[0] / old.interval[1], new.interval[1] / old.interval[0])
    return sides.model_copy(update={"ratio": new.speedup / old.speedup, "interval": interval})


def _contrast_row(
    metric: str, before: float | None, after: float | None, *, incomparable: bool = False
) -> MetricDifference:
    difference = None if incomparable or before is None or after is None else after - before
    return MetricDifference(metric=metric, before=before, after=after, difference=difference)


def _get_speedup(reached: AchievedSpeedup | None) -> float | None:
    return reached.speedup if reached else None


def _incomparable_reason(before: SessionOutcome, after: SessionOutcome) -> str | None:
    """Return why the two final speedups have no ratio; None if they are comparable."""
    for side in (before, after):
        if why := _unusable_reason(side):
            return why
    if before.final is None or after.final is None:
        return None
    pairs = zip(
        _COMPARISON_KEYS, comparison_key(before.final), comparison_key(after.final), strict=True
    )
    for name, old, new in pairs:
        if old != new:
            return f"not the same {name}: {old} and {new}"
    return None


def _unusable_reason(side: SessionOutcome) -> str | None:
    """Return why a session's final speedup cannot be compared; None if it can."""
    final = side.final
    if final is None:
        return f"{side.session} has no valid speedup"
    if side.kind == "reported":
        return f"{side.session} is an account, and nothing in it was measured here"
    if not final.checked:
        return f"{side.session} timed code that no check passed"
    missing = [
        name
        for name, value in zip(_COMPARISON_KEYS, comparison_key(final), strict=True)
        if value is None
    ]
    if missing:
        return f"{side.session} does not say its {missing[0]}"
    if final.interval is None:
        return f"the speedup of {side.session} has no interval"
    return None
