"""Formats a condition as text: ``occupancy < 0.5 and issue_rate < 0.2``."""

from __future__ import annotations

from collections.abc import Mapping

from kernelkb.model.entries.condition import All, Any, Comparison, Condition

ThresholdValues = Mapping[str, float]
"""Maps a threshold's id to its value."""

_MORE_MARK = " –"


def describe_condition(condition: Condition, limits: ThresholdValues) -> str:
    """Return the whole condition, with thresholds replaced by their values."""
    match condition:
        case Comparison():
            limit = limits[condition.threshold] if condition.threshold else condition.value
            shown = f"{limit:g}" if isinstance(limit, float) else str(limit)
            return f"{condition.metric} {condition.op} {shown}"
        case All(all=parts):
            return " and ".join(_describe_nested(part, limits) for part in parts)
        case Any(any=parts):
            return " or ".join(_describe_nested(part, limits) for part in parts)
    return f"not ({describe_condition(condition.negated, limits)})"


def abbreviate_condition(condition: Condition, limits: ThresholdValues, max_parts: int = 2) -> str:
    """Return at most ``max_parts`` parts of a condition, with a dash where parts are left out.

    The first parts are kept, because authors put first what a person should look at first.
    """
    match condition:
        case All(all=parts):
            word = " and "
        case Any(any=parts):
            word = " or "
        case _:
            return describe_condition(condition, limits)
    shown = [abbreviate_condition(part, limits, 1) for part in parts[:max_parts]]
    whole = len(parts) <= max_parts and not any(sign.endswith(_MORE_MARK) for sign in shown)
    return word.join(sign.removesuffix(_MORE_MARK) for sign in shown) + (
        "" if whole else _MORE_MARK
    )


def _describe_nested(condition: Condition, limits: ThresholdValues) -> str:
    text = describe_condition(condition, limits)
    return text if isinstance(condition, Comparison) else f"({text})"
