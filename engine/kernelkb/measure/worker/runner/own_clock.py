"""A runner's own clock on a CPU: how long calls took, and how long the thread waited for a core."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import NamedTuple


class OwnTimes(NamedTuple):
    """Nanoseconds of some calls."""

    runner_ns: int
    wait_ns: int
    """Of these, while the thread was ready to run and others had its core."""


class OwnClock:
    """Of the thread that makes it, and makes the calls."""

    def __init__(self) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._waited_ns = self._start_ns = 0

    def start(self) -> None:
        """Begin."""
        self._waited_ns, self._start_ns = self._read_wait_ns(), time.perf_counter_ns()

    def stop(self) -> OwnTimes:
        """Return what passed since the start."""
        passed_ns = time.perf_counter_ns() - self._start_ns
        return OwnTimes(passed_ns, self._read_wait_ns() - self._waited_ns)

    def _read_wait_ns(self) -> int:
        with suppress(OSError, ValueError, IndexError):
            if self._file is not None:
                return int(os.pread(self._file, 64, 0).split()[1])
        return 0
