"""What somebody typed → a number in the metric's unit, or a refusal that says what to type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelkb.errors import BadValueError, UnknownNameError

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules, MetricRow


_MIN_LIKELY_PERCENT = 2.0
"""From here on a share was probably typed as a percentage."""

_COUNTER_TOLERANCE = 1.05
"""A counter may exceed its peak by this much; what a report says beyond it contradicts itself."""

HEADLINE_FLAGS = ("speedup", "bandwidth", "occupancy", "kernel-us")
"""The headline flags, without their dashes."""


def find_metric_for_flag(rules: CompiledRules, flag: str, target: str) -> str:
    """Return the metric that a headline flag sets: ``bandwidth`` differs between GPU and CPU."""
    for name, row in rules["metrics"].items():
        if row["flag"] == flag and target in row["targets"]:
            return name
    raise UnknownNameError("flag", flag, HEADLINE_FLAGS, "recommend --help")


def parse_metric_value(rules: CompiledRules, name: str, text: str | float) -> float:
    """Return the value of a metric as somebody gave it.

    Args:
        rules: Defines the metric's unit and range.
        name: Metric id.
        text: A number, or for shares also a percentage such as ``40%``.

    Raises:
        UnknownNameError: No such metric.
        BadValueError: Not a number, not finite, or outside the metric's range.
    """
    row = rules["metrics"].get(name)
    if row is None:
        raise UnknownNameError("metric", name, rules["metrics"], "show", id="metrics")
    value = _parse_number(name, text, row)
    _check_range(name, value, row)
    return value


def _parse_number(name: str, text: str | float, row: MetricRow) -> float:
    word = str(text).strip()
    percent = word.endswith("%")
    if percent and row["unit"] != "share":
        raise BadValueError(f"{name} is a {row['unit']}, not a share: {word} has no meaning here")
    try:
        value = float(word.rstrip("% "))
    except ValueError:
        raise BadValueError(f"{name} {word!r} is not a number; write {name}=1.5") from None
    if not math.isfinite(value):
        raise BadValueError(f"{name} is {word}: leave it out when it was not measured")
    return value / 100 if percent else value


def _check_range(name: str, value: float, row: MetricRow) -> None:
    low, high = row["low"], row["high"]
    if row["unit"] == "share" and high is not None:
        high = min(high, _COUNTER_TOLERANCE)
    if value >= low and (high is None or value <= high):
        return
    if row["unit"] == "share" and _MIN_LIKELY_PERCENT <= value <= 100:
        cure = f"write {value / 100:.2f} or {value:g}%"
        raise BadValueError(f"{name} is a share from 0 to 1, {value:g} is outside; {cure}")
    span = f"{low:g} to {high:g}" if high is not None else f"at least {low:g}"
    raise BadValueError(f"{name} is {value:g}, outside what it can be ({span}); measure it again")


def resolve_device(rules: CompiledRules, name: str) -> str:
    """Return our id of a GPU from its id or any name that drivers and people use for it.

    Raises:
        UnknownNameError: No such GPU.
    """
    found = find_device(rules["device_names"], name)
    if found is None:
        raise UnknownNameError("GPU", name.lower(), rules["device_names"], "show", id="devices")
    return found


def find_device(names: Mapping[str, str], name: str) -> str | None:
    """Like ``device_named``, but None for a GPU that no file knows."""
    return names.get(" ".join(name.lower().split()))
