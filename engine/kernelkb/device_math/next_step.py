"""Finds the smallest change of a launch that fits more blocks or warps on an SM."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kernelkb.device_math.occupancy import (
    Launch,
    Limits,
    Occupancy,
    largest_shared_bytes,
    occupancy,
    registers_for_blocks,
    smallest_carveout,
)

Field = Literal[
    "threads", "registers", "static_bytes", "shared_bytes", "carveout_bytes", "barriers"
]


class LaunchChange(NamedTuple):
    """The present and the required value of one property of a launch."""

    field: Field
    """``shared_bytes``: the static and dynamic part together. ``static_bytes``: the excess moves to
    the dynamic part."""
    now: int
    to: int
    """The largest value that is enough; for ``carveout_bytes`` the smallest."""


class LaunchStep(NamedTuple):
    """Changes that are all needed together, with the resulting launch and its occupancy."""

    changes: tuple[LaunchChange, ...]
    launch: Launch
    occupancy: Occupancy


class RegisterStep(NamedTuple):
    """The maximum registers per thread at which this number of blocks fits on an SM."""

    registers: int
    blocks: int
    warps: int
    share: float


def one_more_block(limits: Limits, launch: Launch) -> LaunchStep | None:
    """Return the smallest changes that fit one more block of the same size on an SM.

    Registers are allocated in steps, so more than one block may fit afterwards.
    None: no change is enough. If warps or block slots are the limit, see ``better_block_size``.
    """
    now = occupancy(limits, launch)
    goal = now.blocks + 1
    if min(now.limits.warps, now.limits.blocks) < goal:
        return None
    changes = _required_changes(limits, launch, now, goal)
    return _build_step(limits, launch, changes) if changes is not None else None


def better_block_size(limits: Limits, launch: Launch) -> LaunchStep | None:
    """Return the block size with the most resident warps, all else unchanged; None: none is better.

    Of equally good sizes, return the one nearest to the present size. The shared memory of a block
    is kept, which is correct only for a kernel where it does not depend on the block size.
    """
    now = occupancy(limits, launch)
    best: tuple[int, int, LaunchStep] | None = None
    for threads in range(limits.warp, limits.threads_block + 1, limits.warp):
        step = _build_step(limits, launch, [LaunchChange("threads", launch.threads, threads)])
        rank = (step.occupancy.warps, -abs(threads - launch.threads))
        if not step.occupancy.obstacles and (best is None or rank > best[:2]):
            best = (*rank, step)
    return best[2] if best and best[0] > now.warps else None


def register_steps(limits: Limits, launch: Launch) -> list[RegisterStep]:
    """Return the registers per thread above which fewer blocks fit on an SM, ascending.

    With one register more than a step's, the launch has the blocks of the next step; above the last
    step it fails. Every other limit of the launch applies too.
    """
    each = limits.register_unit // limits.warp
    counts = {
        min(count, limits.registers_thread)
        for count in range(each, limits.registers_thread + each, each)
    }
    found: dict[int, RegisterStep] = {}
    for registers in sorted(counts):
        now = occupancy(limits, launch._replace(registers=registers))
        if now.blocks:
            found[now.blocks] = RegisterStep(registers, now.blocks, now.warps, now.share)
    return list(found.values())


def spare_registers(limits: Limits, launch: Launch) -> int:
    """Return how many more registers a thread could use with the same blocks per SM."""
    blocks = occupancy(limits, launch).blocks
    most = registers_for_blocks(limits, launch.threads, blocks) if blocks else None
    return most - launch.registers if most else 0


def spare_shared_bytes(limits: Limits, launch: Launch) -> int:
    """Return how many more bytes of shared memory a block could use with the same blocks per SM."""
    blocks = occupancy(limits, launch).blocks
    most = largest_shared_bytes(limits, blocks, launch.carveout_bytes) if blocks else None
    return most - launch.shared_bytes if most else 0


def _required_changes(
    limits: Limits, launch: Launch, now: Occupancy, goal: int
) -> list[LaunchChange] | None:
    """Return the changes needed for ``goal`` blocks per SM; None if no change is enough."""
    found: list[LaunchChange] = []
    if _is_below(now.limits.registers, goal):
        most = registers_for_blocks(limits, launch.threads, goal)
        if most is None:
            return None
        found.append(LaunchChange("registers", launch.registers, most))
    if not now.shared.static_fits:
        found.append(LaunchChange("static_bytes", launch.static_bytes, limits.shared_static))
        launch = _apply_change(launch, found[-1])
    if _is_below(occupancy(limits, launch).limits.shared_memory, goal):
        change = _choose_shared_memory_change(limits, launch, goal)
        if change is None:
            return None
        found.append(change)
    if _is_below(now.limits.barriers, goal):
        room = limits.barriers_block if limits.barriers is None else limits.barriers // goal
        found.append(LaunchChange("barriers", launch.barriers, min(room, limits.barriers_block)))
    return found


def _is_below(room: int | None, goal: int) -> bool:
    return room is not None and room < goal


def _choose_shared_memory_change(limits: Limits, launch: Launch, goal: int) -> LaunchChange | None:
    """Return a larger carve-out if that is enough, else fewer bytes per block; None if neither is.

    A larger carve-out is preferred, because it only makes the L1 cache smaller.
    """
    if launch.carveout_bytes is not None:
        size = smallest_carveout(limits, launch.shared_bytes, goal)
        if size is not None:
            return LaunchChange("carveout_bytes", launch.carveout_bytes, size)
    most = largest_shared_bytes(limits, goal, launch.carveout_bytes)
    return LaunchChange("shared_bytes", launch.shared_bytes, most) if most is not None else None


def _build_step(limits: Limits, launch: Launch, changes: list[LaunchChange]) -> LaunchStep:
    for change in changes:
        launch = _apply_change(launch, change)
    return LaunchStep(tuple(changes), launch, occupancy(limits, launch))


def _apply_change(launch: Launch, change: LaunchChange) -> Launch:
    match change.field:
        case "threads":
            return launch._replace(threads=change.to)
        case "registers":
            return launch._replace(registers=change.to)
        case "static_bytes":
            moved = launch.static_bytes - change.to
            return launch._replace(
                static_bytes=change.to, dynamic_bytes=launch.dynamic_bytes + moved
            )
        case "shared_bytes":
            static = min(launch.static_bytes, change.to)
            return launch._replace(static_bytes=static, dynamic_bytes=change.to - static)
        case "carveout_bytes":
            return launch._replace(carveout_bytes=change.to)
        case "barriers":
            return launch._replace(barriers=change.to)
