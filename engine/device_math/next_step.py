"""The smallest change of a launch that lets more of it share an SM."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kernelkb.device_math.limits import Launch, Limits
from kernelkb.device_math.occupancy import Occupancy, occupancy
from kernelkb.device_math.registers import registers_for_blocks
from kernelkb.device_math.shared_memory import largest_shared_bytes, smallest_carveout

Field = Literal[
    "threads", "registers", "static_bytes", "shared_bytes", "carveout_bytes", "barriers"
]


class LaunchChange(NamedTuple):
    """One number of a launch, and what it must become."""

    field: Field
    """``shared_bytes`` is the static and dynamic part together; of ``static_bytes`` what is too
    much moves to the dynamic part."""
    now: int
    to: int
    """The largest value that will do; for ``carveout_bytes`` the smallest."""


class LaunchStep(NamedTuple):
    """What a launch becomes by changes that are all needed together."""

    changes: tuple[LaunchChange, ...]
    launch: Launch
    occupancy: Occupancy


class RegisterStep(NamedTuple):
    """The most registers per thread that still give so many blocks."""

    registers: int
    blocks: int
    warps: int
    share: float


def one_more_block(limits: Limits, launch: Launch) -> LaunchStep | None:
    """Return the least that has to change for one more block of the same size.

    Registers are handed out in steps, so the change may make room for more than one.
    None: this block size is full, by warps or by block slots; see ``better_block_size``.
    """
    now = occupancy(limits, launch)
    goal = now.blocks + 1
    if min(now.limits.warps, now.limits.blocks) < goal:
        return None
    changes = _required_changes(limits, launch, now, goal)
    return _build_step(limits, launch, changes) if changes is not None else None


def better_block_size(limits: Limits, launch: Launch) -> LaunchStep | None:
    """Return the block size that fills the SM best, with all else as it is; None: none is better.

    Of equally good ones it is the nearest. The shared memory of a block stays the same, which is
    right only where it does not grow with the block.
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
    """Return the register counts at which a launch loses a block, rising.

    A thread that uses one register more than a step names gets the blocks of the next step, and
    after the last step the launch fails. Every other limit of the launch counts too.
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
    """Return how many more registers a thread could use without costing a block."""
    blocks = occupancy(limits, launch).blocks
    most = registers_for_blocks(limits, launch.threads, blocks) if blocks else None
    return most - launch.registers if most else 0


def spare_shared_bytes(limits: Limits, launch: Launch) -> int:
    """Return how many more bytes of shared memory a block could use without costing a block."""
    blocks = occupancy(limits, launch).blocks
    most = largest_shared_bytes(limits, blocks, launch.carveout_bytes) if blocks else None
    return most - launch.shared_bytes if most else 0


def _required_changes(
    limits: Limits, launch: Launch, now: Occupancy, goal: int
) -> list[LaunchChange] | None:
    """Return what must change for ``goal`` blocks; None where nothing helps."""
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
    """Prefer a larger carve-out, which costs the kernel nothing but cache, to fewer bytes."""
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
