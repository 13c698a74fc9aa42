"""Finds the registers that are live before each instruction."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernelkb.sass.function import SassFunction

_GENERAL = re.compile(r"R(\d+)")


def find_live_registers(function: SassFunction) -> list[int]:
    """Return the general registers that are live before each instruction: bit N stands for RN.

    What a subroutine reads and writes is not followed, and a write that a predicate decides about
    ends nothing.
    """
    count = len(function.instructions)
    reads, writes = [0] * count, [0] * count
    for index, one in enumerate(function.instructions):
        reads[index] = make_mask(one.reads)
        writes[index] = 0 if one.is_conditional else make_mask(one.writes)
    live = [0] * count
    pending, waiting = list(range(count)), [True] * count
    while pending:
        index = pending.pop()
        waiting[index] = False
        needed = 0
        for successor in function.successors[index]:
            needed |= live[successor]
        before = reads[index] | (needed & ~writes[index])
        if before != live[index]:
            live[index] = before
            for predecessor in function.predecessors[index]:
                if not waiting[predecessor]:
                    waiting[predecessor] = True
                    pending.append(predecessor)
    return live


def make_mask(names: Iterable[str]) -> int:
    """Return the general registers among some as bits."""
    mask = 0
    for name in names:
        if found := _GENERAL.fullmatch(name):
            mask |= 1 << int(found[1])
    return mask
