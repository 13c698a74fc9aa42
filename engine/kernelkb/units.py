"""Sizes, numbers and durations: parsed as typed ("48KiB", "2.5e9"), written in a unit that fits."""

from __future__ import annotations

import math
import re

from kernelkb.errors import BadValueError

_BINARY_UNITS = {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SIZE_PATTERN = r"(\d+(?:\.\d+)?(?:e\+?\d+)?)\s*([a-z]*)"
_TILE_PATTERN = r"\d{1,9}(?:[x*]\d{1,9}){1,5}"
"""Compiled when a size is parsed: every answer imports this module."""
_MAX_BYTES = 2.0**60
"""Largest size that is accepted."""
_PLAUSIBLE_RANGE = (1e-6, 1e30)
"""Accepted range of operations, microseconds and rates; outside it, quotients overflow."""
_HOURS_FROM_MIN, _DAYS_FROM_H = 120, 48
"""From here on a time is told in the next larger unit."""


def parse_byte_count(name: str, text: str | int) -> int:
    """Return a number of bytes.

    Args:
        name: Name of the size in the error message.
        text: Plain bytes, ``48KiB``, or the factors of a tile: ``128x64x2x3`` is rows, columns,
            bytes of an element, stages.

    Raises:
        BadValueError: Not a size, or a unit such as KB, which may mean 1000 or 1024 bytes.
    """
    word = str(text).strip().lower().replace("_", "")
    if re.fullmatch(_TILE_PATTERN, word, re.ASCII):
        return _require_whole_bytes(
            name, word, math.prod(int(factor) for factor in re.split("[x*]", word))
        )
    found = re.fullmatch(_SIZE_PATTERN, word, re.ASCII)
    if found is None:
        raise BadValueError(f"{name} {text!r} is not a size; write 49152, 48KiB or 128x64x2x3")
    number, unit = float(found[1]), found[2]
    if unit in ("", "b", "bytes"):
        return _require_whole_bytes(name, word, number)
    if unit in _BINARY_UNITS:
        return _require_whole_bytes(name, word, number * _BINARY_UNITS[unit])
    binary = f"{unit[0]}ib"
    if binary not in _BINARY_UNITS or unit not in (unit[0], f"{unit[0]}b"):
        raise BadValueError(f"{name} {text!r} has an unknown unit; write bytes, KiB, MiB or GiB")
    thousands = number * 1000 ** (["kib", "mib", "gib", "tib"].index(binary) + 1)
    raise BadValueError(
        f"{name} {text!r} may mean 1000s or 1024s; "
        f"write {found[1]}{unit[0].upper()}iB or {thousands:.0f}"
    )


def parse_whole_number(name: str, text: str | int, low: int, high: int) -> int:
    """Return a whole number from ``low`` to ``high``.

    Raises:
        BadValueError: Not a whole number, or outside the range.
    """
    try:
        value = int(str(text).strip().replace("_", ""))
    except ValueError:
        raise BadValueError(f"{name} {text!r} is not a whole number; write {low}") from None
    if not low <= value <= high:
        raise BadValueError(f"{name} is {value}, outside what it can be ({low} to {high})")
    return value


def parse_positive_number(name: str, text: str | float) -> float:
    """Return a number above zero, given as a number or as text such as ``2.5e9``.

    Raises:
        BadValueError: Not a number, not finite, or outside the accepted range.
    """
    try:
        value = float(str(text).strip().replace("_", ""))
    except ValueError:
        raise BadValueError(f"{name} {text!r} is not a number; write 2.5e9") from None
    if not math.isfinite(value):
        raise BadValueError(f"{name} is {text}: leave it out when it is not known")
    low, high = _PLAUSIBLE_RANGE
    if not low <= value <= high:
        raise BadValueError(f"{name} is {value:g}, outside what it can be ({low:g} to {high:g})")
    return value


def _require_whole_bytes(name: str, text: str, value: float) -> int:
    if value > _MAX_BYTES or value != int(value):
        raise BadValueError(f"{name} {text!r} is not a whole number of bytes that a GPU could hold")
    return int(value)


def format_size(size: int) -> str:
    """Return bytes as text in B, KiB, MiB or GiB, with three digits."""
    for unit, count in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= count:
            return (
                f"{size / count:.3g} {unit}"
                if size < 1000 * count
                else f"{size / count:.0f} {unit}"
            )
    return f"{size} B"


def format_duration(us: float) -> str:
    """Return microseconds as text in us, ms or s."""
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    if us >= 1e3:
        return f"{us / 1e3:.2f} ms"
    return f"{us:.2f} us"


def format_minutes(minutes: float) -> str:
    """Return minutes as text as people say them: in seconds, minutes, hours or days."""
    if minutes < 1:
        return f"{minutes * 60:.3g} s"
    if minutes < 10:
        return f"{minutes:.1f} min"
    if minutes < _HOURS_FROM_MIN:
        return f"{minutes:.0f} min"
    hours = minutes / 60
    return f"{hours:.3g} h" if hours < _DAYS_FROM_H else f"{hours / 24:,.0f} days"


def describe_time_budget(
    budget_min: float, predicted_min: tuple[float, float, float] | None
) -> str:
    """Return a phase's time budget, and the time of its tools predicted from earlier sessions."""
    if predicted_min is None:
        return f"{budget_min:g} min"
    low, point, high = map(format_minutes, predicted_min)
    return f"{budget_min:g} min, of which tools {point} [{low}, {high}]"
