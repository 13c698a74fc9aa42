"""How many registers a thread may have, and how many blocks fit because of them.

Warps are dealt to the SM's partitions, and each partition hands out registers from its own share.
So a block of 9 warps is limited like one of 12: three to a partition.
"""

from __future__ import annotations

from kernelkb.device_math.limits import Limits, round_up


def registers_per_warp(limits: Limits, registers: int) -> int:
    """Return the registers that a warp takes when each of its threads uses so many."""
    return round_up(registers * limits.warp, limits.register_unit)


def blocks_for_registers(limits: Limits, threads: int, registers: int) -> int | None:
    """Return the blocks per SM that fit: 0 when none can be launched, None when any number."""
    if registers > limits.registers_thread:
        return 0
    if not registers:
        return None
    warps, each = limits.warps_per_block(threads), registers_per_warp(limits, registers)
    # The launch is checked as if every partition held as many warps as the fullest.
    if each * round_up(warps, limits.partitions) > limits.registers_block:
        return 0
    return limits.registers // limits.partitions // each * limits.partitions // warps


def registers_for_blocks(limits: Limits, threads: int, blocks: int) -> int | None:
    """Return the most registers per thread at which so many blocks fit, by registers alone.

    None: not even the smallest count does.
    """
    partition = limits.registers // limits.partitions
    fullest = -(-blocks * limits.warps_per_block(threads) // limits.partitions)
    each = partition // fullest // limits.register_unit * limits.register_unit
    return min(each // limits.warp, limits.registers_thread) or None


def register_cap(limits: Limits, threads: int) -> int | None:
    """Return the registers per thread that ptxas allows a kernel bound to this block size.

    None: no kernel of this block size can be launched.
    """
    return registers_for_blocks(limits, threads, 1)
