"""Three-valued conditions: true, false, or None for what was not measured.

Every comparison that the knowledge makes is a leaf of one table, and is made once for a set of
metrics. A condition is the number of a leaf, or a list: ``["all", …]``, ``["any", …]``,
``["not", c]``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kernelkb.decide.rules import FlatCondition, LeafTable
    from kernelkb.model.recommendation import Reason


_OPS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_NEGATED_OP = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


class Facts(NamedTuple):
    """What is known, and what that makes of every comparison."""

    values: Mapping[str, float]
    table: LeafTable
    truth: list[bool | None]
    """By leaf; None as long as a side of the comparison is unknown."""
    touched_leaves: set[int]
    """Leaves about which anything at all is known."""


def evaluate_comparisons(table: LeafTable, known: Mapping[str, float]) -> Facts:
    """Make every comparison that the known quantities allow."""
    truth: list[bool | None] = [None] * len(table["rows"])
    touched: set[int] = set()
    by_metric, touches = table["by_metric"], table["touches"]
    for name, value in known.items():
        touched.update(touches.get(name, ()))
        for op, leaves, limits in by_metric.get(name, ()):
            test = _OPS[op]
            for leaf, limit in zip(leaves, limits, strict=True):
                right = known.get(limit) if limit.__class__ is str else limit
                if right is not None:
                    truth[leaf] = test(value, right)
    return Facts(known, table, truth, touched)


def satisfies(left: float, op: str, right: float) -> bool:
    """Compare two numbers."""
    return _OPS[op](left, right)


def judge_condition(condition: FlatCondition, truth: list[bool | None]) -> bool | None:
    """Judge a condition: false and true win over unknown wherever logic allows it."""
    if condition.__class__ is int:
        return truth[condition]
    kind = condition[0]
    if kind == "not":
        inner = judge_condition(condition[1], truth)
        return None if inner is None else not inner
    decisive = kind == "any"  # one true settles "any", one false settles "all"
    verdict: bool | None = not decisive
    for part in condition[1:]:
        value = truth[part] if part.__class__ is int else judge_condition(part, truth)
        if value is decisive:
            return decisive
        if value is None:
            verdict = None
    return verdict


def find_reasons(condition: FlatCondition, facts: Facts, outcome: bool = True) -> Iterator[Reason]:
    """Yield the comparisons that make a condition ``outcome``, in its own order.

    For an unknown condition these are the parts that hold so far.
    """
    if isinstance(condition, int):
        if facts.truth[condition] is outcome:
            metric, op, limit, source = facts.table["rows"][condition]
            yield {
                "metric": metric,
                "value": facts.values[metric],
                "op": op if outcome else _NEGATED_OP[op],
                "limit": facts.values[limit] if isinstance(limit, str) else limit,
                "source": facts.table["sources"][source],
            }
    elif condition[0] == "not":
        yield from find_reasons(condition[1], facts, not outcome)
    else:
        for part in condition[1:]:
            if judge_condition(part, facts.truth) in (outcome, None):
                yield from find_reasons(part, facts, outcome)


def find_missing_quantities(condition: FlatCondition, facts: Facts) -> list[str]:
    """Return the quantities that still decide an unknown condition, each once, in order."""
    found: dict[str, None] = {}
    truth, known, rows = facts.truth, facts.values, facts.table["rows"]

    def walk(part: FlatCondition) -> None:
        if part.__class__ is not int:
            if judge_condition(part, truth) is None:
                for inner in part[1:]:
                    walk(inner)
        elif truth[part] is None:
            metric, _, limit, _ = rows[part]
            if metric not in known:
                found[metric] = None
            if limit.__class__ is str and limit not in known:
                found[limit] = None

    walk(condition)
    return list(found)


def format_reason(reason: Mapping[str, Any], notes: Mapping[str, str] | None = None) -> str:
    """Return one comparison as text: ``speedup 0.3 < 0.5``.

    Args:
        reason: The comparison.
        notes: Of the program: what is to be said of a limit that is not as it was shipped.
    """
    note = notes.get(reason["source"], "") if notes else ""
    return f"{reason['metric']} {reason['value']:.4g} {reason['op']} {reason['limit']:.4g}{note}"
