"""Restores the cores that this process may use, after a job: a candidate may have changed them.

Linux lets each process of a user set the cores of all others of that user, and a filter of system
calls cannot tell a candidate's own threads, which OpenMP binds, from later threads of ours.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = threading.Lock()
_job_count = 0
_affinities: dict[int, frozenset[int]] = {}


@contextmanager
def keep_own_cores() -> Iterator[None]:
    """Restore, after the block, the cores of each thread as they were before it.

    Where blocks overlap in time, those before the first of them count. A thread that was started
    meanwhile gets the cores that the process's first thread had.
    """
    global _job_count
    with _LOCK:
        if _job_count == 0:
            _affinities.clear()
            _affinities.update(_read_affinities())
        _job_count += 1
    try:
        yield
    finally:
        with _LOCK:
            _job_count -= 1
            _restore()


def _restore() -> None:
    common = _affinities.get(os.getpid())
    for thread, cores in _read_affinities().items():
        wanted = _affinities.get(thread, common)
        if wanted is not None and wanted != cores:
            with suppress(OSError):  # it has ended, or cores were taken away from this process
                os.sched_setaffinity(thread, wanted)


def _read_affinities() -> dict[int, frozenset[int]]:
    """Return the cores that each of our threads may use, by thread id."""
    affinities = {}
    for entry in Path("/proc/self/task").glob("[0-9]*"):
        with suppress(OSError):
            thread = int(entry.name)
            affinities[thread] = frozenset(os.sched_getaffinity(thread))
    return affinities
