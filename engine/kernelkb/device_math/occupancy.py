"""Computes the blocks of a launch that fit on one SM, what limits them, and what fits more.

The rules are those of NVIDIA's own calculator, cuda_occupancy.h of CUDA 13.0.

Warps are distributed over the SM's partitions, and each partition has its own share of the
registers. So a block of 9 warps has the same limit as one of 12: three per partition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

Limiter = Literal["warps", "registers", "shared_memory", "blocks", "barriers"]

Obstacle = Literal[
    "threads", "registers_thread", "registers_block", "static_bytes", "shared_bytes", "barriers"
]
"""Why a launch fails: the property that exceeds the limit of a block."""

Field = Literal[
    "threads", "registers", "static_bytes", "shared_bytes", "carveout_bytes", "barriers"
]


class Limits(NamedTuple):
    """The limits of one architecture, per SM unless a name or docstring gives another scope."""

    warp: int
    """Threads per warp."""
    partitions: int
    """Subpartitions of an SM, each with its own scheduler and its own share of the registers."""
    threads: int
    threads_block: int
    blocks: int
    registers: int
    registers_block: int
    registers_thread: int
    register_unit: int
    """Registers are allocated to a warp in multiples of this."""
    shared: int
    """Bytes of shared memory, at the largest carve-out."""
    shared_opt_in: int
    """Maximum bytes of a block whose kernel opted in to more than ``shared_static``."""
    shared_static: int
    """Maximum bytes of a block without opt-in; also the maximum that it may declare statically."""
    shared_reserved: int
    """Bytes that the driver reserves in every block."""
    shared_unit: int
    """Bytes; shared memory is allocated to a block in multiples of this."""
    carveouts: tuple[int, ...]
    """Sizes in bytes, ascending, that the shared part of the L1 memory can have."""
    barriers: int | None
    """None: not counted on this architecture."""
    barriers_block: int

    @property
    def warps(self) -> int:
        """Maximum number of resident warps."""
        return self.threads // self.warp

    def warps_per_block(self, threads: int) -> int:
        """Return the number of warps of a block with so many threads, rounded up."""
        return -(-threads // self.warp)


class Launch(NamedTuple):
    """The properties of a kernel launch that decide how many blocks fit on an SM."""

    threads: int
    """Per block."""
    registers: int
    """Per thread, as ptxas or the driver reports them."""
    static_bytes: int = 0
    """Shared memory of a block that the kernel declares."""
    dynamic_bytes: int = 0
    """Shared memory of a block that the launch adds."""
    barriers: int = 0
    """Named barriers of a block; 0: not counted."""
    carveout_bytes: int | None = None
    """Shared memory per SM that the kernel prefers; None: the largest."""

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block, without those that the driver reserves."""
        return self.static_bytes + self.dynamic_bytes


def round_up(value: int, unit: int) -> int:
    """Return ``value`` rounded up to a multiple of ``unit``."""
    return -(-value // unit) * unit


def registers_per_warp(limits: Limits, registers: int) -> int:
    """Return the registers allocated to a warp, given the registers per thread."""
    return round_up(registers * limits.warp, limits.register_unit)


def blocks_for_registers(limits: Limits, threads: int, registers: int) -> int | None:
    """Return the blocks per SM that the registers allow; 0: the launch fails; None: no limit."""
    if registers > limits.registers_thread:
        return 0
    if not registers:
        return None
    warps, each = limits.warps_per_block(threads), registers_per_warp(limits, registers)
    # The launch is checked as if every partition had as many warps as the fullest one.
    if each * round_up(warps, limits.partitions) > limits.registers_block:
        return 0
    return limits.registers // limits.partitions // each * limits.partitions // warps


def registers_for_blocks(limits: Limits, threads: int, blocks: int) -> int | None:
    """Return the maximum registers per thread at which so many blocks fit on an SM.

    Only registers are considered. None: so many blocks fit with no register count.
    """
    partition = limits.registers // limits.partitions
    fullest = -(-blocks * limits.warps_per_block(threads) // limits.partitions)
    each = partition // fullest // limits.register_unit * limits.register_unit
    return min(each // limits.warp, limits.registers_thread) or None


def register_cap(limits: Limits, threads: int) -> int | None:
    """Return the registers per thread that ptxas allows with ``__launch_bounds__(threads)``.

    None: no kernel of this block size can be launched.
    """
    return registers_for_blocks(limits, threads, 1)


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


class Residency(NamedTuple):
    """What is on the SMs while a grid runs, and how much of the L1 memory is left as a cache."""

    occupancy: Occupancy
    waves: Waves | None
    """None: no block fits."""
    warps: float
    """Mean resident warps of an SM, over all SMs and waves."""
    busy: float
    """Share of the time in which a mean SM has a block, if all blocks take equally long."""
    carveout: tuple[int, int]
    """Smallest and largest shared memory of an SM, in bytes, that the driver may choose."""


def describe_residency(
    limits: Limits, launch: Launch, grid: int, sm_count: int, fitting: int | None = None
) -> Residency:
    """Return what a grid of so many blocks keeps on the SMs.

    Args:
        limits: Limits of the architecture.
        launch: The launch.
        grid: Blocks, at least one.
        sm_count: SMs of the GPU.
        fitting: Blocks that the measured carve-out holds; None: not measured.
    """
    found = occupancy(limits, launch)
    on_device = waves(grid, found.blocks, sm_count)
    rounds = on_device.rounds if on_device else 1
    each = grid / sm_count
    return Residency(
        occupancy=found,
        waves=on_device,
        warps=each * limits.warps_per_block(launch.threads) / rounds if on_device else 0.0,
        busy=each / math.ceil(each),
        carveout=_bound_carveout(limits, found, fitting),
    )


_MOST_CLUSTERED_BLOCKS = 8
_MOST_CARVEOUT = 132 * 1024
"""Bytes above which the driver chose no larger carve-out than the blocks need (seen on H100, H200,
L4 and GA10x: it takes up to twice what they need, and four times their reserve alone)."""


def _bound_carveout(limits: Limits, found: Occupancy, fitting: int | None) -> tuple[int, int]:
    """Return the smallest and largest carve-out that the driver may choose."""
    each, steps = found.shared.allocated, limits.carveouts
    needed = min(each * max(1, found.blocks), steps[-1])
    wanted = needed * 2 if found.shared.asked else each * found.limits.warps * 4
    low = next(size for size in steps if size >= needed)
    most = max(low, min(wanted, _MOST_CARVEOUT))
    high = next((size for size in steps if size >= most), steps[-1])
    if fitting and each:
        most_blocks = max(limits.blocks, fitting)
        told = [size for size in steps if min(size // each, most_blocks) == fitting]
        likely = [size for size in told if low <= size <= high] or told
        if likely:
            return likely[0], likely[-1]
    return low, high


def count_barriers(limits: Limits, blocks: int | None) -> int:
    """Return the fewest barriers of a block of which an SM holds so many blocks; 0: no limit."""
    if not blocks or limits.barriers is None or blocks >= limits.blocks:
        return 0
    return limits.barriers // (blocks + 1) + 1


def count_clusters(groups: Mapping[int, int], blocks: int, size: int) -> int:
    """Return how many clusters of ``size`` blocks are on a GPU: the SMs of one are in one group.

    A group has at least as many SMs as a cluster has blocks, and an SM holds eight blocks at most:
    derived from 48 counts of the driver of one H200 (``benchmarks/what_if.py --residency``).

    Args:
        groups: By their number of SMs, how many groups (GPCs) there are.
        blocks: That fit on an SM.
        size: Blocks of a cluster.
    """
    held = min(blocks, _MOST_CLUSTERED_BLOCKS)
    return sum(count * (sms * held // size) for sms, count in groups.items() if sms >= size)
