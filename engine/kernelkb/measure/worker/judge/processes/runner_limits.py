"""Limits of a runner process, enforced by polling /proc."""

from __future__ import annotations

import time
from typing import NamedTuple

from kernelkb.measure.worker.judge.processes import procfs
from kernelkb.measure.worker.shared.messages.specs import RunnerLimits, RunnerStatus

_COUNT_INTERVAL_S = 0.4
"""Between counts of a runner's processes, each of which reads all of /proc."""


class ExceededLimit(NamedTuple):
    """A limit that a runner exceeds."""

    status: RunnerStatus
    detail: str
    """What it did, as a sentence."""


class LimitWatch:
    """Watches one process."""

    def __init__(self, limits: RunnerLimits, *, counts_processes: bool) -> None:
        """Watch nothing yet.

        Args:
            limits: What it may use.
            counts_processes: Whether the number of processes that runners started counts.
        """
        self._limits, self._counts_processes = limits, counts_processes
        self._last_count_at = 0.0

    def find_exceeded(self, pid: int) -> ExceededLimit | None:
        """Return a limit that the process exceeds now."""
        status = procfs.read_status(pid)
        used_kib = sum(int(status.get(key, "0").split()[0]) for key in ("RssAnon", "RssShmem"))
        if used_kib * 1024 > self._limits["memory_bytes"]:
            gib = self._limits["memory_bytes"] / 2**30
            return ExceededLimit("out-of-memory", f"it took more than {gib:.1f} GiB of memory")
        exceeded = _compare(int(status.get("Threads", "0")), "threads", self._limits["threads"])
        if exceeded or not self._counts_processes:
            return exceeded
        if time.monotonic() - self._last_count_at < _COUNT_INTERVAL_S:
            return None
        self._last_count_at = time.monotonic()
        count = len(procfs.list_all_descendants())
        return _compare(count, "processes", self._limits["processes"])


def _compare(count: int, noun: str, limit: int) -> ExceededLimit | None:
    if count <= limit:
        return None
    return ExceededLimit("limit-exceeded", f"it started more than {limit} {noun}")
