"""Decodes the control bits of an instruction: what it waits for, and what waits for it.

Instructions of variable latency (loads, stores, special functions, shuffles) count one of six
scoreboards up when they issue, and down when their result is written or their operands are read;
another instruction waits until a scoreboard is zero. The layout, of Volta and later: Jia, Maggioni,
Staiger, Scarpazza: Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018,
section 2.1.
"""

from __future__ import annotations

from typing import NamedTuple

_NONE = 7
_COUNT = 6


class Control(NamedTuple):
    """The control bits of one instruction."""

    stall_cycles: int
    """Before the next instruction of the warp may issue."""
    write_scoreboard: int | None
    """Counted up until the result is written; None: its latency is fixed, or nothing waits."""
    read_scoreboard: int | None
    """Counted up until the operands are read, so that they may be overwritten."""
    waits_for: frozenset[int]
    """Scoreboards that have to be zero before it issues."""


def decode_control(high: int) -> Control:
    """Decode the control bits.

    Args:
        high: The upper 64 bits of the instruction's 128.
    """
    write, read, mask = high >> 46 & 7, high >> 49 & 7, high >> 52 & 63
    return Control(
        stall_cycles=high >> 41 & 15,
        write_scoreboard=None if write == _NONE else write,
        read_scoreboard=None if read == _NONE else read,
        waits_for=frozenset(index for index in range(_COUNT) if mask >> index & 1),
    )
