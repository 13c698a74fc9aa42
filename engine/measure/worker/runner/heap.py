"""Returns memory that the C library's allocator keeps to the system; without torch."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def trim_heap() -> None:
    """Return all free pages of the heap to the system, where the C library can (glibc)."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
