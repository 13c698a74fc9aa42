"""Computes shared-memory limits: the blocks per SM that fit, and the bytes a block may have."""

from __future__ import annotations

from typing import NamedTuple

from kernelkb.device_math.limits import Launch, Limits, round_up


class SharedBudget(NamedTuple):
    """The shared memory of a block: requested, allocated and left, in bytes."""

    asked: int
    """Requested by the block, static and dynamic."""
    allocated: int
    """Allocated to the block: with the driver's reserve, rounded up."""
    carveout: int
    """Shared memory of the SM."""
    blocks: int | None
    """Blocks per SM that fit; None: no limit, because the block needs no shared memory."""
    static_fits: bool
    """Whether the static part is within the limit of static shared memory."""
    fits: bool
    """Whether static and dynamic part together are within the limit of a block with opt-in."""
    opt_in_bytes: int | None
    """Value to set with cudaFuncSetAttribute before the launch; None: not needed."""
    left_without_opt_in: int
    """Bytes left to the limit without opt-in; negative: bytes above it."""
    left: int
    """Bytes left to the limit with opt-in; negative: bytes above it."""


def shared_memory_budget(limits: Limits, launch: Launch) -> SharedBudget:
    """Return the allocated shared memory of a launch, the blocks that fit and the bytes left.

    The opt-in is for dynamic memory only: no attribute raises the limit of the static part.
    """
    asked = launch.shared_bytes
    allocated = allocation(limits, asked)
    fits = asked <= limits.shared_opt_in
    static_fits = launch.static_bytes <= limits.shared_static
    carveout = _choose_carveout(limits, launch.carveout_bytes, allocated)
    over = fits and static_fits and asked > limits.shared_static
    return SharedBudget(
        asked=asked,
        allocated=allocated,
        carveout=carveout,
        blocks=_blocks_that_fit(allocated, carveout) if fits and static_fits else 0,
        static_fits=static_fits,
        fits=fits,
        opt_in_bytes=launch.dynamic_bytes if over else None,
        left_without_opt_in=limits.shared_static - asked,
        left=limits.shared_opt_in - asked,
    )


def allocation(limits: Limits, asked: int) -> int:
    """Return the bytes allocated to a block that requests ``asked`` bytes."""
    return round_up(asked + limits.shared_reserved, limits.shared_unit)


def largest_shared_bytes(limits: Limits, blocks: int, carveout_bytes: int | None) -> int | None:
    """Return the maximum bytes that each block may request if so many are to fit on an SM.

    Args:
        limits: Limits of the architecture.
        blocks: Blocks per SM, at least one.
        carveout_bytes: Shared memory per SM that the kernel prefers; None is the largest.

    Returns:
        Static and dynamic bytes together, or None when not even empty blocks fit.
    """
    most = limits.shared_opt_in + limits.shared_reserved
    found = None
    for size in limits.carveouts:
        each = min(size // blocks // limits.shared_unit * limits.shared_unit, most)
        asked = each - limits.shared_reserved
        fitting = _blocks_that_fit(each, _choose_carveout(limits, carveout_bytes, each))
        if asked >= 0 and (fitting is None or fitting >= blocks):
            found = asked  # the sizes ascend, so the last one that fits leaves most for a block
    return found


def smallest_carveout(limits: Limits, asked: int, blocks: int) -> int | None:
    """Return the smallest shared memory per SM, in bytes, at which so many blocks fit, or None."""
    allocated = allocation(limits, asked)
    enough = (size for size in limits.carveouts if size >= allocated * blocks)
    return next(enough, None) if asked <= limits.shared_opt_in else None


def _choose_carveout(limits: Limits, preferred: int | None, needed: int) -> int:
    """Return the shared memory of the SM: the preferred size, or more if a block needs it."""
    least = max(limits.shared if preferred is None else preferred, needed)
    return next((size for size in limits.carveouts if size >= least), limits.carveouts[-1])


def _blocks_that_fit(allocated: int, carveout: int) -> int | None:
    return carveout // allocated if allocated else None
