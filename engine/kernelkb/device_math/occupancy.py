"""Computes how many blocks of a launch fit on one SM, and which resources limit the number.

The rules are those of NVIDIA's own calculator, cuda_occupancy.h of CUDA 13.0.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from kernelkb.device_math.limits import Launch, Limits
from kernelkb.device_math.registers import blocks_for_registers, registers_per_warp
from kernelkb.device_math.shared_memory import SharedBudget, shared_memory_budget

Limiter = Literal["warps", "registers", "shared_memory", "blocks", "barriers"]

Obstacle = Literal[
    "threads", "registers_thread", "registers_block", "static_bytes", "shared_bytes", "barriers"
]
"""Why a launch fails: the property that exceeds the limit of a block."""


class BlockLimits(NamedTuple):
    """Blocks per SM that each resource allows; None: no limit."""

    warps: int
    registers: int | None
    shared_memory: int | None
    blocks: int
    barriers: int | None


class Occupancy(NamedTuple):
    """Resident blocks and warps of one SM, and what limits them."""

    blocks: int
    warps: int
    share: float
    """Warps ÷ the warps that an SM can hold, 0 to 1."""
    limits: BlockLimits
    limiters: tuple[Limiter, ...]
    """The resources that limit the blocks; several if they allow the same number."""
    registers_block: int
    """Registers allocated to a block."""
    shared: SharedBudget
    obstacles: tuple[Obstacle, ...]
    """Empty when the launch is possible."""


def occupancy(limits: Limits, launch: Launch) -> Occupancy:
    """Return how many blocks of a launch fit on an SM, and what limits them.

    Args:
        limits: Limits of the architecture.
        launch: The launch, with at least one thread; the other numbers may be 0.
    """
    warps = limits.warps_per_block(launch.threads)
    shared = shared_memory_budget(limits, launch)
    room = BlockLimits(
        warps=limits.warps // warps if launch.threads <= limits.threads_block else 0,
        registers=blocks_for_registers(limits, launch.threads, launch.registers),
        shared_memory=shared.blocks,
        blocks=limits.blocks,
        barriers=_blocks_for_barriers(limits, launch.barriers),
    )
    blocks = min(value for value in room if value is not None)
    return Occupancy(
        blocks=blocks,
        warps=blocks * warps,
        share=blocks * warps / limits.warps,
        limits=room,
        limiters=_find_limiters(room, blocks),
        registers_block=registers_per_warp(limits, launch.registers) * warps,
        shared=shared,
        obstacles=_find_obstacles(limits, launch, room, shared),
    )


def _blocks_for_barriers(limits: Limits, barriers: int) -> int | None:
    if barriers > limits.barriers_block:
        return 0
    return limits.barriers // barriers if barriers and limits.barriers is not None else None


def _find_limiters(room: BlockLimits, blocks: int) -> tuple[Limiter, ...]:
    named: dict[Limiter, int | None] = {
        "warps": room.warps,
        "registers": room.registers,
        "shared_memory": room.shared_memory,
        "blocks": room.blocks,
        "barriers": room.barriers,
    }
    return tuple(name for name, value in named.items() if value == blocks)


def _find_obstacles(
    limits: Limits, launch: Launch, room: BlockLimits, shared: SharedBudget
) -> tuple[Obstacle, ...]:
    too_many = launch.registers > limits.registers_thread
    found: dict[Obstacle, bool] = {
        "threads": room.warps == 0,
        "registers_thread": too_many,
        "registers_block": room.registers == 0 and not too_many,
        "static_bytes": not shared.static_fits,
        "shared_bytes": not shared.fits,
        "barriers": launch.barriers > limits.barriers_block,
    }
    return tuple(name for name, wrong in found.items() if wrong)
