"""Weighs the bottlenecks that the metrics neither match nor exclude."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kernelkb.decide.conditions import Facts, find_missing_quantities, find_reasons

if TYPE_CHECKING:
    from kernelkb.decide.rules import BottleneckRow, CompiledRules
    from kernelkb.model.answers.recommendation import Diagnosis

_UNDECIDED_FACTOR = 0.9
"""Factor on every confidence for each cause that a missing counter leaves open (judgement)."""
_SUSPECTED_FACTOR = 0.7
"""The same for a cause that several other counters speak for (judgement)."""
_SUSPECTED_COUNT = 2
"""True comparisons from which counters speak for a cause (judgement)."""
_OUTER_GROUPS = ("measurement", "system", "terminal")
"""Groups of bottlenecks around the kernel."""
_PROFILE_LEVELS = ("L1", "L2", "L3")


class OpenBottlenecks(NamedTuple):
    """Unknown bottlenecks, those with the most true comparisons first."""

    rows: list[BottleneckRow]
    held_counts: dict[str, int]
    """By id, how many comparisons of its condition are true; absent if no quantity is known."""


def rank_open_bottlenecks(
    rows: list[BottleneckRow], facts: Facts, max_count: int
) -> OpenBottlenecks:
    """Return at most ``max_count`` unknown bottlenecks, those with most true comparisons first."""
    truth, is_untouched = facts.truth, facts.touched.isdisjoint
    held_counts: dict[str, int] = {}
    for row in rows:
        own = row["requirements"]["comparisons"]
        if not is_untouched(own):
            held_counts[row["id"]] = [truth[position] for position in own].count(True)
    ranked = sorted(rows, key=lambda row: held_counts.get(row["id"], 0), reverse=True)
    return OpenBottlenecks(ranked[:max_count], held_counts)


def weigh_undecided(
    rules: CompiledRules, rows: list[BottleneckRow], facts: Facts
) -> dict[str, float]:
    """Return the unknown bottlenecks of the kernel itself that a counter could decide.

    A full profile leaves few; one with counters missing, many.

    Returns:
        By id, the factor on the confidence of every other cause: smaller if several comparisons
        speak for it, or one does and only one quantity is missing.
    """
    levels = {name: row["level"] for name, row in rules["metrics"].items()}
    factors: dict[str, float] = {}
    for row in rows:
        missing = find_missing_quantities(row["when"], facts)
        is_measurable = any(levels.get(quantity) in _PROFILE_LEVELS for quantity in missing)
        if is_measurable and row["group"] not in _OUTER_GROUPS:
            reason_count = len(list(find_reasons(row["when"], facts)))
            is_suspected = reason_count >= _SUSPECTED_COUNT or (reason_count and len(missing) == 1)
            factors[row["id"]] = _SUSPECTED_FACTOR if is_suspected else _UNDECIDED_FACTOR
    return factors


def build_unknown_diagnosis(row: BottleneckRow, facts: Facts) -> Diagnosis:
    """Return the diagnosis of an unknown bottleneck: no prediction and no fixes."""
    return {
        "bottleneck": row["id"],
        "group": row["group"],
        "verdict": "unknown",
        "confidence": 0.0,
        "predicted_speedup": None,
        "because": list(find_reasons(row["when"], facts)),
        "ruled_out": [],
        "falsifier": None,
        "fixes": [],
        "learned": None,
        "lines": None,
    }
