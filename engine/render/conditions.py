"""A condition in words."""

from __future__ import annotations

from collections.abc import Mapping

from kernelkb.model.condition import All, Any, Comparison, Condition

Limits = Mapping[str, float]
"""Threshold id to value."""

_MORE = " –"


def said(condition: Condition, limits: Limits) -> str:
    """Return all of a condition."""
    match condition:
        case Comparison():
            limit = limits[condition.threshold] if condition.threshold else condition.value
            shown = f"{limit:g}" if isinstance(limit, float) else str(limit)
            return f"{condition.metric} {condition.op} {shown}"
        case All(all=parts):
            return " and ".join(_nested(part, limits) for part in parts)
        case Any(any=parts):
            return " or ".join(_nested(part, limits) for part in parts)
    return f"not ({said(condition.negated, limits)})"


def started(condition: Condition, limits: Limits, most: int = 2) -> str:
    """Return the first parts of a condition, and a dash for the rest.

    The first parts are what a person looks at first: authors put them there.
    """
    match condition:
        case All(all=parts):
            word = " and "
        case Any(any=parts):
            word = " or "
        case _:
            return said(condition, limits)
    shown = [started(part, limits, 1) for part in parts[:most]]
    whole = len(parts) <= most and not any(sign.endswith(_MORE) for sign in shown)
    return word.join(sign.removesuffix(_MORE) for sign in shown) + ("" if whole else _MORE)


def _nested(condition: Condition, limits: Limits) -> str:
    text = said(condition, limits)
    return text if isinstance(condition, Comparison) else f"({text})"
