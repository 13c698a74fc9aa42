"""Computes blocks per SM, occupancy and waves from a launch's metrics and a known GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules, HardwareTables
    from kernelkb.device_math.limits import Launch, Limits

# The calculators are imported only if the launch is known: most calls give only a few metrics.


def build_limits(hardware: HardwareTables, cc: str) -> Limits:
    """Return the limits of an architecture, given its compute capability, such as ``9.0``."""
    from kernelkb.device_math.limits import Limits

    common, own = hardware["common"], hardware["architectures"][cc]
    return Limits(
        warp=common["warp"],
        partitions=common["subpartitions"],
        threads=own["max_threads_sm"],
        threads_block=common["max_threads_block"],
        blocks=own["max_blocks_sm"],
        registers=common["regs_sm"],
        registers_block=common["regs_block"],
        registers_thread=common["regs_thread_max"],
        register_unit=common["reg_alloc_unit_per_warp"],
        shared=own["smem_sm"],
        shared_opt_in=own["smem_optin_block"],
        shared_static=common["static_smem_block"],
        shared_reserved=own["smem_reserved_block"],
        shared_unit=own["smem_gran"],
        carveouts=tuple(size * 1024 for size in own["carveouts_kb"]),
        barriers=own["barriers_sm"],
        barriers_block=common["barriers_block"],
    )


def derive_residency_metrics(
    rules: CompiledRules, known: Mapping[str, float], device: str | None
) -> Iterator[tuple[str, float]]:
    """Yield (metric, value) for the blocks per SM, occupancy and waves of a launch on a known GPU.

    Nothing is yielded without block size and registers. If the shared memory of a block is
    unknown, only the limits by warps, block slots and registers are.
    """
    launch = _build_launch(known)
    if device is None or launch is None:
        return
    from kernelkb.device_math.occupancy import occupancy
    from kernelkb.device_math.waves import waves

    facts = rules["hardware"]["devices"][device]
    limits = build_limits(rules["hardware"], facts["cc"])
    if launch.threads > limits.threads_block:
        return
    found = occupancy(limits, launch)
    yield "limit_warps_block_count", float(found.limits.warps)
    yield "limit_blocks_block_count", float(found.limits.blocks)
    if found.limits.registers is not None:
        yield "limit_registers_block_count", float(found.limits.registers)
    if not _is_shared_memory_known(known):
        return
    room = found.limits.shared_memory
    shared = limits.blocks if room is None else min(room, limits.blocks)
    yield "limit_shared_memory_block_count", float(shared)
    yield "theoretical_occupancy", found.share
    grid = known.get("grid_block_count")
    filled = waves(int(grid), found.blocks, facts["sm_count"]) if grid else None
    if filled:
        yield "waves", filled.waves


def describe_next_step(
    rules: CompiledRules, known: Mapping[str, float], device: str | None
) -> str | None:
    """Return the smallest change that fits one more block on an SM, as text; None if unknown."""
    launch = _build_launch(known)
    if device is None or launch is None or not _is_shared_memory_known(known):
        return None
    from kernelkb.device_math.next_step import one_more_block

    step = one_more_block(
        build_limits(rules["hardware"], _compute_capability(rules, device)), launch
    )
    if step is None:
        return None
    changes = " and ".join(
        f"{change.field.replace('_', ' ')} {change.now} -> {change.to}" for change in step.changes
    )
    found = step.occupancy
    return f"{changes} makes room for {found.blocks} blocks an SM, occupancy {found.share:.3g}"


def _compute_capability(rules: CompiledRules, device: str) -> str:
    return str(rules["hardware"]["devices"][device]["cc"])


def _build_launch(known: Mapping[str, float]) -> Launch | None:
    threads, registers = known.get("block_thread_count", 0), known.get("register_count", 0)
    if threads < 1 or registers < 1:
        return None
    from kernelkb.device_math.limits import Launch

    return Launch(
        threads=int(threads),
        registers=int(registers),
        static_bytes=int(known.get("static_shared_bytes", 0)),
        dynamic_bytes=int(known.get("dynamic_shared_bytes", 0)),
    )


def _is_shared_memory_known(known: Mapping[str, float]) -> bool:
    return "static_shared_bytes" in known and "dynamic_shared_bytes" in known
