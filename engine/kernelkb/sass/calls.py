"""Gives code without lines, as the subroutines of divisions and ``pow``, the line that calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from kernelkb.sass.function import SassFunction

_MAX_DEPTH = 4
"""Subroutines that call one another."""


def fill_called_places(function: SassFunction, executed: Mapping[int, float]) -> SassFunction:
    """Return a function in which code without lines has those of its call.

    Args:
        function: Disassembled, with the labels of its subroutines.
        executed: How often each instruction ran; of several calls the most frequent one counts.
    """
    calls: dict[int, list[int]] = {}
    for index, one in enumerate(function.instructions):
        if one.opcode == "CALL" and one.target in function.labels:
            calls.setdefault(function.labels[one.target], []).append(index)
    starts = sorted(calls)
    places = list(function.places)
    for _ in range(_MAX_DEPTH):
        for start, end in pairwise([*starts, len(places)]):
            callers = [index for index in calls[start] if places[index]]
            caller = max(callers, key=lambda index: executed.get(index, 0.0), default=None)
            if caller is None:
                continue
            for index in range(start, end):
                places[index] = places[index] or places[caller]
    return replace(function, places=tuple(places))
