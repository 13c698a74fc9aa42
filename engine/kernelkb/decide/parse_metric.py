"""Parses a metric's value as typed on a command line ("88%", "0.4") to a number in its unit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelkb.errors import BadValueError, UnknownNameError

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules, MetricRow


_MIN_LIKELY_PERCENT = 2.0
"""A share of at least this value was probably typed as a percentage."""

_COUNTER_TOLERANCE = 1.05
"""Largest valid share: a hardware counter can exceed its peak slightly, but not by more."""

OUT_OF_SCOPE = "KernelKB covers NVIDIA GPUs and CPUs: GPUs of AMD, Intel and Apple are out of scope"
"""Said of a GPU by another maker, and in the README."""

_OTHER_MAKER = re.compile(
    r"\b(amd|radeon|instinct|mi\d{2,3}[a-z]?|gfx\d+\w*|rx ?\d{4}|rocm|cdna\d?|rdna\d?"
    r"|intel|arc|gaudi\d?|ponte vecchio|apple|m[1-5] (?:pro|max|ultra))\b"
)

_FAMILY_WORDS = frozenset(("nvidia", "geforce", "rtx", "gtx", "tesla", "quadro", "gpu"))

_TRUTHS = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}

HEADLINE_FLAGS = ("speedup", "bandwidth", "occupancy", "kernel-us")
"""The headline flags, without their dashes."""


def find_metric_for_flag(rules: CompiledRules, flag: str, target: str) -> str:
    """Return the metric that a headline flag sets; for ``bandwidth`` it depends on the target.

    Raises:
        UnknownNameError: No such flag.
    """
    for name, row in rules["metrics"].items():
        if row["flag"] == flag and target in row["targets"]:
            return name
    raise UnknownNameError("flag", flag, HEADLINE_FLAGS, "recommend --help")


def parse_metric_value(rules: CompiledRules, name: str, text: str | float) -> float:
    """Return the value of a metric in its unit, from text or a number.

    Args:
        rules: The compiled rules, with the metric's unit and range.
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
    if row["unit"] == "truth" and isinstance(text, str):
        word = _TRUTHS.get(word.lower(), word)
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
    """Return the id of a GPU, given its id, its name in the driver, or an alias.

    Raises:
        UnknownNameError: No such GPU.
        BadValueError: A GPU by another maker than NVIDIA.
    """
    found = find_device(rules["device_names"], name)
    if found is None and _OTHER_MAKER.search(name.lower().replace("-", " ")):
        raise BadValueError(f"{name!r} is not an NVIDIA GPU; {OUT_OF_SCOPE}")
    if found is None:
        raise UnknownNameError("GPU", name.lower(), rules["device_names"], "show", id="devices")
    return found


def find_device(names: Mapping[str, str], name: str) -> str | None:
    """Return the id of a GPU as ``resolve_device`` does, but None for an unknown GPU.

    Words that say the maker or the family may be missing, if one GPU remains: ``4090``.
    """
    words = " ".join(name.lower().split())
    if words in names:
        return names[words]
    short = _shorten(words)
    found = {device for known, device in names.items() if short and _shorten(known) == short}
    return found.pop() if len(found) == 1 else None


def _shorten(name: str) -> str:
    words = re.findall(r"[a-z0-9]+", name)
    return " ".join(word for word in words if word not in _FAMILY_WORDS)
