"""Computes how many waves of blocks a grid needs on a GPU, and the share of slots left empty."""

from __future__ import annotations

import math
from typing import NamedTuple


class Waves(NamedTuple):
    """The waves of a grid whose blocks are distributed over all SMs."""

    slots: int
    """Maximum number of blocks that run at the same time."""
    waves: float
    """Grid ÷ slots."""
    rounds: int
    """Waves rounded up; in the last round some slots may stay empty."""
    tail_blocks: int
    """Blocks of the last round."""
    loss: float
    """Share of the slots, over all rounds, that stay empty when all blocks take equally long."""
    idle_sms: int
    """SMs that never get a block."""


def waves(grid_blocks: int, blocks_per_sm: int, sm_count: int) -> Waves | None:
    """Return how a grid of so many blocks fills a GPU, or None when no block fits an SM."""
    slots = blocks_per_sm * sm_count
    if not slots:
        return None
    rounds = -(-grid_blocks // slots)
    count = grid_blocks / slots
    return Waves(
        slots=slots,
        waves=count,
        rounds=rounds,
        tail_blocks=grid_blocks - (rounds - 1) * slots,
        loss=wave_loss(count) or 0.0,
        idle_sms=max(0, sm_count - grid_blocks),
    )


def wave_loss(count: float) -> float | None:
    """Return the share of a grid's time that a partly filled last wave leaves unused.

    None: there is no wave. Source: Nsight Compute's tail effect, refined (E9).
    """
    return 1 - count / math.ceil(count) if count > 0 else None
