"""Three-valued conditions: true, false, or None for what was not measured."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from engine.decide.answer import Reason
from engine.decide.program import Condition

_OPS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def limit_of(limit: float | str, known: Mapping[str, float]) -> float | None:
    """Return a number, or the value of the quantity that ``limit`` names, None if unknown."""
    return known.get(limit) if isinstance(limit, str) else limit


def holds(condition: Condition, known: Mapping[str, float]) -> bool | None:
    """Judge a condition: false and true win over unknown wherever logic allows it."""
    kind = condition[0]
    if kind == "is":
        _, metric, op, limit, _ = condition
        left, right = known.get(metric), limit_of(limit, known)
        return None if left is None or right is None else _OPS[op](left, right)
    if kind == "not":
        inner = holds(condition[1], known)
        return None if inner is None else not inner
    decisive = kind == "any"  # one true settles "any", one false settles "all"
    verdict: bool | None = not decisive
    for part in condition[1:]:
        value = holds(part, known)
        if value is decisive:
            return decisive
        if value is None:
            verdict = None
    return verdict


def reasons(
    condition: Condition, known: Mapping[str, float], wanted: bool = True
) -> Iterator[Reason]:
    """Yield the comparisons that make a condition ``wanted``, in its own order.

    For an unknown condition these are the parts that hold so far.
    """
    kind = condition[0]
    if kind == "is":
        _, metric, op, limit, source = condition
        left, right = known.get(metric), limit_of(limit, known)
        if left is not None and right is not None and _OPS[op](left, right) is wanted:
            shown = op if wanted else _OPPOSITE[op]
            yield {"metric": metric, "value": left, "op": shown, "limit": right, "source": source}
    elif kind == "not":
        yield from reasons(condition[1], known, not wanted)
    else:
        for part in condition[1:]:
            if holds(part, known) in (wanted, None):
                yield from reasons(part, known, wanted)


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def missing(condition: Condition, known: Mapping[str, float]) -> list[str]:
    """Return the quantities that still decide an unknown condition, each once, in order."""
    found: dict[str, None] = {}

    def walk(part: Condition) -> None:
        if holds(part, known) is not None:
            return
        if part[0] == "is":
            names = (part[1], part[3])
            found.update((n, None) for n in names if isinstance(n, str) and n not in known)
        else:
            for inner in part[1:]:
                walk(inner)

    walk(condition)
    return list(found)


def said(reason: Mapping[str, Any]) -> str:
    """Return one comparison as text: ``speedup 0.3 < 0.5``."""
    return f"{reason['metric']} {reason['value']:.4g} {reason['op']} {reason['limit']:.4g}"
