"""What the C library's allocator does with free memory; without torch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_M_PERTURB = -6
"""glibc, mallopt(3): new memory is filled with the complement of a byte, freed memory with it."""
_FILL_BYTE = 0x01
"""New memory holds 0xFE: as float32 -1.7e38, as int32 -16843010."""


def trim_heap() -> None:
    """Return all free pages of the heap to the system, where the C library can (glibc)."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def filled_heap(*, is_filled: bool) -> Iterator[None]:
    """Have new memory filled in the block, if asked and the C library can (glibc).

    The system's is zero: a candidate that adds to its scratch memory, and does not clear it, is
    right only as long as that is so.
    """
    if not is_filled:
        yield
        return
    _set_fill_byte(_FILL_BYTE)
    try:
        yield
    finally:
        _set_fill_byte(0)


def _set_fill_byte(byte: int) -> None:
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_PERTURB, byte)
