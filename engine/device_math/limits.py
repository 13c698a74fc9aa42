"""What one SM has to share out among the blocks that run on it."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """The limits of one architecture. Counts are per SM unless the name says otherwise."""

    warp: int
    """Threads."""
    partitions: int
    """Parts of an SM, each with its own scheduler and its own share of the registers."""
    threads: int
    threads_block: int
    blocks: int
    registers: int
    registers_block: int
    registers_thread: int
    register_unit: int
    """A warp gets its registers in multiples of this."""
    shared: int
    """Bytes, at the largest carve-out."""
    shared_opt_in: int
    """Bytes that a block may have once its kernel has asked for more than ``shared_static``."""
    shared_static: int
    """Bytes that a block may have without asking, and all that it may declare statically."""
    shared_reserved: int
    """Bytes that the driver takes for itself in every block."""
    shared_unit: int
    """A block gets its bytes in multiples of this."""
    carveouts: tuple[int, ...]
    """Sizes in bytes, rising, that the shared part of the L1 memory can have."""
    barriers: int | None
    """None: not counted on this architecture."""
    barriers_block: int

    @property
    def warps(self) -> int:
        """Warps that fit at most."""
        return self.threads // self.warp

    def warps_per_block(self, threads: int) -> int:
        """Return the warps of a block; a part of a warp takes a whole one."""
        return -(-threads // self.warp)


class Launch(NamedTuple):
    """One way to launch a kernel, as far as it decides how many blocks share an SM."""

    threads: int
    """Per block."""
    registers: int
    """Per thread, as ptxas or the driver reports them."""
    static_bytes: int = 0
    """Shared memory that the kernel declares."""
    dynamic_bytes: int = 0
    """Shared memory that the launch adds."""
    barriers: int = 0
    """Named barriers of a block; 0: not counted."""
    carveout_bytes: int | None = None
    """Shared memory per SM that the kernel prefers. None: the largest."""

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, without what the driver reserves."""
        return self.static_bytes + self.dynamic_bytes


def round_up(value: int, unit: int) -> int:
    """Return the smallest multiple of a unit that is not below a value."""
    return -(-value // unit) * unit
