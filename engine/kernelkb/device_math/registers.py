"""Computes register limits: the blocks per SM that fit, and the registers a thread may have.

Warps are distributed over the SM's partitions, and each partition has its own share of the
registers. So a block of 9 warps has the same limit as one of 12: three per partition.
"""

from __future__ import annotations

from kernelkb.device_math.limits import Limits, round_up


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
