"""How much shared memory a block may have, and how many blocks fit because of it."""

from __future__ import annotations

from typing import NamedTuple

from kernelkb.device_math.limits import Launch, Limits, round_up


class SharedBudget(NamedTuple):
    """What becomes of the shared memory that a block asks for. Bytes."""

    asked: int
    """Static and dynamic."""
    allocated: int
    """What the block takes from its SM: with the driver's share, rounded up."""
    carveout: int
    """What the SM is set to."""
    blocks: int | None
    """Blocks per SM that fit. None: this block needs nothing, so any number."""
    static_fits: bool
    """Whether the static part is one that a kernel may declare."""
    fits: bool
    """Whether static and dynamic part together are within what a block may have at all."""
    opt_in_bytes: int | None
    """What to pass to cudaFuncSetAttribute before the launch. None: nothing to do."""
    left_without_opt_in: int
    """Negative: by how much the block exceeds it."""
    left: int
    """To the most that a block may have. Negative: by how much the block exceeds it."""


def shared_memory_budget(limits: Limits, launch: Launch) -> SharedBudget:
    """Return what a launch's shared memory costs and allows.

    The opt-in is for dynamic memory only: no attribute lifts the limit of the static part.
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
    """Return the bytes that a block takes from its SM when it asks for so many."""
    return round_up(asked + limits.shared_reserved, limits.shared_unit)


def largest_shared_bytes(limits: Limits, blocks: int, carveout_bytes: int | None) -> int | None:
    """Return the most that each block may ask for when so many are to share an SM.

    Args:
        limits: The architecture.
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
            found = asked  # sizes rise, and so does what they leave for each block
    return found


def smallest_carveout(limits: Limits, asked: int, blocks: int) -> int | None:
    """Return the least shared memory per SM at which so many blocks fit, or None."""
    allocated = allocation(limits, asked)
    enough = (size for size in limits.carveouts if size >= allocated * blocks)
    return next(enough, None) if asked <= limits.shared_opt_in else None


def _choose_carveout(limits: Limits, preferred: int | None, needed: int) -> int:
    """Return the size that the SM is set to: what is preferred, or more if a block needs it."""
    least = max(limits.shared if preferred is None else preferred, needed)
    return next((size for size in limits.carveouts if size >= least), limits.carveouts[-1])


def _blocks_that_fit(allocated: int, carveout: int) -> int | None:
    return carveout // allocated if allocated else None
