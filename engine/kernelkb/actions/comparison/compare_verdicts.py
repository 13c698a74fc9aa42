"""Compares the answers for a kernel before and after a change: budget, falsifier, what binds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelkb.decide.conditions import satisfies
from kernelkb.decide.rules import CompiledRules
from kernelkb.decide.source_lines import find_lines
from kernelkb.model.answers.recommendation import Diagnosis, KernelAnswer, TimeShare
from kernelkb.model.answers.report_comparison import (
    Amount,
    FalsifierCheck,
    NowBinding,
    PartChange,
    TimeVerdict,
)
from kernelkb.sass.counters import SourceCounters

_MAX_PARTS = 5
_NOISE = 0.03
"""Share by which durations of one kernel differ from one profile to the next (judgement)."""
_MIN_MOVE = 0.005
"""Least change of a share that is told."""
_REST = "other"
"""The part of a time budget that sums those too small to be told."""
_SAYS: dict[tuple[bool, TimeVerdict | None], str] = {
    (True, "fell"): "held, and the time fell, so the diagnosis was right",
    (True, "same"): "held, but the time is the same: this was not what limited the kernel",
    (True, "rose"): "held, but the time rose: the change costs more than it gives",
    (True, None): "held; a report has no duration, so the diagnosis is not confirmed",
    (False, "fell"): "did not hold, though the time fell: something else made it faster",
    (False, "same"): "did not hold, and the time is the same: revert the change",
    (False, "rose"): "did not hold, and the time rose: revert the change",
    (False, None): "did not hold",
}


def compare_budgets(
    before: Sequence[TimeShare],
    now: Sequence[TimeShare],
    durations_us: tuple[float | None, float | None],
) -> list[PartChange]:
    """Return the parts of two time budgets whose share changed most, the largest change first.

    A part below 2 % of the time is not in a budget, and counts as 0 there.
    """
    if not before or not now:
        return []
    old, new = ({row["part"]: row for row in side} for side in (before, now))
    names = [name for name in {**old, **new} if name != _REST]
    changes: list[PartChange] = [
        {
            "part": name,
            "title": (old.get(name) or new[name])["title"],
            "title_now": (new.get(name) or old[name])["title"],
            "before": _make_amount(old.get(name), durations_us[0]),
            "now": _make_amount(new.get(name), durations_us[1]),
        }
        for name in names
    ]
    moved = [change for change in changes if _measure_change(change) >= _MIN_MOVE]
    return sorted(moved, key=lambda change: -_measure_change(change))[:_MAX_PARTS]


def _make_amount(row: TimeShare | None, duration_us: float | None) -> Amount | None:
    if row is None:
        return None
    us = None if duration_us is None else round(row["share"] * duration_us, 3)
    return {"share": row["share"], "us": us, "samples": None}


def _measure_change(change: PartChange) -> float:
    shares = [side["share"] if side else 0.0 for side in (change["before"], change["now"])]
    return abs(shares[1] - shares[0])


def judge_time(before_us: float | None, now_us: float | None) -> TimeVerdict | None:
    """Return whether the duration changed by more than profiles of one kernel differ."""
    if not before_us or not now_us:
        return None
    if now_us < before_us * (1 - _NOISE):
        return "fell"
    return "rose" if now_us > before_us * (1 + _NOISE) else "same"


def check_falsifier(
    answer: KernelAnswer, known_now: Mapping[str, float], time: TimeVerdict | None
) -> FalsifierCheck | None:
    """Return whether the falsifier of the first diagnosis that has one holds now.

    Args:
        answer: For the old report.
        known_now: Measured and derived metrics of the new one.
        time: Whether the duration fell.
    """
    for diagnosis in list_matches(answer):
        expected = diagnosis["falsifier"]
        if expected is None:
            continue
        now = known_now.get(expected["metric"])
        held = None if now is None else satisfies(now, expected["op"], expected["value"])
        lacks = f"cannot be checked: the new report lacks {expected['metric']}"
        return {
            "bottleneck": diagnosis["bottleneck"],
            "fix": diagnosis["fixes"][0]["id"] if diagnosis["fixes"] else None,
            "metric": expected["metric"],
            "op": expected["op"],
            "value": expected["value"],
            "before": expected["before"],
            "now": now,
            "held": held,
            "time": time,
            "says": lacks if held is None else _SAYS[held, time],
        }
    return None


def list_matches(answer: KernelAnswer) -> list[Diagnosis]:
    """Return the diagnoses that match, the first first."""
    return [one for one in answer["diagnoses"] if one["verdict"] == "matches"]


def describe_binding(
    rules: CompiledRules,
    before: KernelAnswer,
    now: KernelAnswer,
    counters: SourceCounters | None,
) -> NowBinding:
    """Return the first diagnosis of the new report, with its fix and its lines.

    Args:
        rules: The compiled rules.
        before: The answer for the old report.
        now: That for the new one.
        counters: Of the new launch by instruction; None without.
    """
    best = next(iter(list_matches(now)), None)
    fix = best["fixes"][0] if best and best["fixes"] else None
    name = best["bottleneck"] if best else None
    lines = None
    if name is not None and counters is not None:
        lines = find_lines(counters, rules["line_evidence"].get(name, []))
    largest = max(now["time"], key=lambda row: row["share"], default=None)
    unnamed = f"the largest part of the time is {largest['title']}" if largest else ""
    return {
        "gate": now["gate"]["verdict"],
        "because": now["gate"]["because"],
        "bottleneck": name,
        "was_before": name in {one["bottleneck"] for one in list_matches(before)},
        "confidence": best["confidence"] if best else 0.0,
        "predicted_speedup": best["predicted_speedup"] if best else None,
        "fix": fix["id"] if fix else None,
        "do": fix["do"] if fix else unnamed,
        "lines": lines,
    }
