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
    from kernelkb.decide.answer import Reason
    from kernelkb.decide.rules import Condition, LeafTable


_OPS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


class Facts(NamedTuple):
    """What is known, and what that makes of every comparison."""

    known: Mapping[str, float]
    table: LeafTable
    truth: list[bool | None]
    """By leaf; None as long as a side of the comparison is unknown."""
    touched: set[int]
    """Leaves about which anything at all is known."""


def compare(table: LeafTable, known: Mapping[str, float]) -> Facts:
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


def compares(left: float, op: str, right: float) -> bool:
    """Compare two numbers."""
    return _OPS[op](left, right)


def holds(condition: Condition, truth: list[bool | None]) -> bool | None:
    """Judge a condition: false and true win over unknown wherever logic allows it."""
    if condition.__class__ is int:
        return truth[condition]
    kind = condition[0]
    if kind == "not":
        inner = holds(condition[1], truth)
        return None if inner is None else not inner
    decisive = kind == "any"  # one true settles "any", one false settles "all"
    verdict: bool | None = not decisive
    for part in condition[1:]:
        value = truth[part] if part.__class__ is int else holds(part, truth)
        if value is decisive:
            return decisive
        if value is None:
            verdict = None
    return verdict


def reasons(condition: Condition, facts: Facts, wanted: bool = True) -> Iterator[Reason]:
    """Yield the comparisons that make a condition ``wanted``, in its own order.

    For an unknown condition these are the parts that hold so far.
    """
    if isinstance(condition, int):
        if facts.truth[condition] is wanted:
            metric, op, limit, source = facts.table["rows"][condition]
            yield {
                "metric": metric,
                "value": facts.known[metric],
                "op": op if wanted else _OPPOSITE[op],
                "limit": facts.known[limit] if isinstance(limit, str) else limit,
                "source": facts.table["sources"][source],
            }
    elif condition[0] == "not":
        yield from reasons(condition[1], facts, not wanted)
    else:
        for part in condition[1:]:
            if holds(part, facts.truth) in (wanted, None):
                yield from reasons(part, facts, wanted)


def missing(condition: Condition, facts: Facts) -> list[str]:
    """Return the quantities that still decide an unknown condition, each once, in order."""
    found: dict[str, None] = {}
    truth, known, rows = facts.truth, facts.known, facts.table["rows"]

    def walk(part: Condition) -> None:
        if part.__class__ is not int:
            if holds(part, truth) is None:
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


def said(reason: Mapping[str, Any], notes: Mapping[str, str] | None = None) -> str:
    """Return one comparison as text: ``speedup 0.3 < 0.5``.

    Args:
        reason: The comparison.
        notes: Of the program: what is to be said of a limit that is not as it was shipped.
    """
    note = notes.get(reason["source"], "") if notes else ""
    return f"{reason['metric']} {reason['value']:.4g} {reason['op']} {reason['limit']:.4g}{note}"
