"""How the integers that a program in C++ passes are drawn again: as a fill of a kernel.yaml."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise

_MIN_VALUES = 3
_BYTES = 256
_NEAR = 0.9
"""Drawn indices below a size come this near to it."""
OFFSETS = "offsets"
_MIN_SPAN, _MIN_COUNT, _CLOSE = 64, 16, 1 / 16
"""Of values, and the part of their span that neighbours are apart: drawn ones a third of it."""
_CHANCE = 4
"""Integers that are all different are so on purpose where this times their square is above the
room that they have."""
_TYPE_CODES = {
    "bool": "B", "int8": "b", "uint8": "B", "int16": "h", "int32": "i", "int64": "q",
}  # fmt: skip
"""Of ``array``, by dtype."""


def read_integers(
    dtype: str, type_name: str, counts: Sequence[float], contents: Sequence[bytes]
) -> dict[int, Sequence[int]]:
    """Return what launches find in an array of integers, by the number of each that was read.

    Args:
        dtype: Of its elements; nothing is read of another one than an integer.
        type_name: As written in C++, which says whether they are unsigned.
        counts: Its elements in each launch.
        contents: What each launch finds in its memory; empty where that was not read.
    """
    code = _TYPE_CODES.get(dtype, "")
    code = code.upper() if type_name.startswith(("u", "size_t")) else code
    found: dict[int, Sequence[int]] = {}
    for at, (count, content) in enumerate(zip(counts, contents, strict=False)):
        values = array(code or "b")
        size = min(int(count), len(content) // values.itemsize) * values.itemsize
        values.frombytes(content[:size])
        found |= {at: values} if code and values else {}
    return found


def choose_fill(
    values: Sequence[Sequence[int]],
    sizes: Mapping[str, Sequence[float]],
    others: Sequence[Sequence[float]],
) -> tuple[str, str]:
    """Return ``fill`` and ``scale`` of a kernel.yaml for some values, and what is lost by them.

    Args:
        values: Of an array, in each launch that was read.
        sizes: Of each axis, in the same launches.
        others: The elements of each other array in them: offsets end with as many.
    """
    lows, highs = [min(own) for own in values], [max(own) for own in values]
    fixed = {0: "zeros", 1: "ones", -1: "integers 0 from -1"}
    if len({*lows, *highs}) == 1 and lows[0] in fixed:
        return fixed[lows[0]], ""
    if max(highs) <= 0:
        return "", f"are {min(lows)} to {max(highs)}"
    is_sorted = all(all(a <= b for a, b in pairwise(own)) for own in values)
    is_sorted &= min(map(len, values)) >= _MIN_VALUES
    same = [axis for axis, own in sizes.items() if [*own] == highs]
    is_end = bool(same) or any([*own] == highs for own in others)
    if is_sorted and not any(lows) and is_end and (same or len({*highs}) == 1):
        return f"{OFFSETS} {same[0] if same else highs[0]}", ""
    if all(sorted(own) == [*range(len(own))] for own in values):
        return "permutation", "ascend" if is_sorted else ""
    near = [
        axis
        for axis, own in sizes.items()
        if len(highs) > 1
        and all(_NEAR * n < high + 1 <= n for n, high in zip(own, highs, strict=True))
    ]
    is_byte = all(isinstance(own, array) and own.typecode == "B" for own in values)
    whole = _BYTES if is_byte and max(highs) >= _NEAR * _BYTES else min(highs) + 1
    scale = near[0] if near else str(whole)
    distinct = all(len({*own}) == len(own) for own in values)
    is_meant = all(_CHANCE * len(own) ** 2 > high for own, high in zip(values, highs, strict=True))
    lost = "ascend" if is_sorted else "all differ" if distinct and is_meant else ""
    lost = lost or _describe_near(max(values, key=len))
    return f"integers {scale}" + (f" from {min(lows)}" if min(lows) else ""), lost


def _describe_near(values: Sequence[int]) -> str:
    """Return that values lie near the ones beside them, as the columns of a stencil do."""
    span = max(values) - min(values)
    if span < _MIN_SPAN or len(values) < _MIN_COUNT:
        return ""
    steps = sorted(abs(one - other) for one, other in pairwise(values))
    middle = steps[len(steps) // 2]
    is_near = middle <= _CLOSE * span
    return f"are near their neighbours, half of them at most {middle} away" if is_near else ""


def describe_lost(name: str, fill: str, lost: str, values: Sequence[Sequence[int]]) -> list[str]:
    """Return what the values of an array have in a run, and drawn ones have not.

    Args:
        name: Of the array.
        fill: As it is drawn.
        lost: What ``choose_fill`` found.
        values: Of each launch that was read.
    """
    if fill.startswith(OFFSETS):
        return [f"{name}: {text}"] if (text := _compare_rows(values)) else []
    cure = _name_ascending(name, values) if lost == "ascend" else ""
    verb = "are" if lost.startswith("are ") else "do"
    return [f"{name}: in the run its values {lost}; drawn ones {verb} not{cure}"] if lost else []


_TOO_MANY, _TOO_FEW = 2.0, 0.05


def _compare_rows(values: Sequence[Sequence[int]]) -> str:
    """Return how long rows are in a run, and in drawn offsets; empty where that is alike.

    Drawn offsets are sorted: the lengths of their rows fall off exponentially.
    """
    own = max(values, key=len)
    lengths = [end - begin for begin, end in pairwise(own)]
    mean, empty = own[-1] / len(lengths), lengths.count(0) / len(lengths)
    longest = max(round(mean * math.log(len(lengths))), 1)
    drawn = 1 - mean * (1 - math.exp(-1 / mean))
    is_alike = max(lengths) < _TOO_MANY * longest and longest < _TOO_MANY * max(lengths)
    if len(lengths) < _MIN_COUNT or (is_alike and abs(drawn - empty) < _TOO_FEW):
        return ""
    share = f"{empty:.0%} of them empty" if empty else "none empty"
    return (
        f"in the run its rows have {min(lengths)} to {max(lengths)} entries, {share}; drawn ones "
        f"have 0 to about {longest}, about {drawn:.0%} of them empty"
    )


def _name_ascending(name: str, values: Sequence[Sequence[int]]) -> str:
    """Return the answer that draws ascending values below the largest one; empty for none."""
    high = min(max(own) for own in values)
    if high <= 0 or min(min(own) for own in values) < 0:
        return ""
    return f": --set '{name}.fill=offsets {high}' draws ascending ones, from 0 to {high}"
