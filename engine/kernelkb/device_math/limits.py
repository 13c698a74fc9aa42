"""Defines the resource limits of a GPU architecture and the resources that a launch uses."""

from __future__ import annotations

from typing import NamedTuple


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
