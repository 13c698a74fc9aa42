"""How much of a measured time a runner spent waiting for a core that others had.

Linux counts for each thread how long it was ready to run and had no core. Of that only what cannot
be the runner's own doing is taken off its time. Another of its threads may have had the core, and
done the work meanwhile: so the CPU time of all its other threads counts against the waiting of its
first thread, and nothing is taken off where it may have started a process. Neither can a candidate
hide work in a wait, nor does it gain by waiting, by sleeping, or by making the judge wait.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kernelkb.measure.worker.judge.procfs import cpu_time_ns, last_pid

_MAX_THREADS = 64
"""Threads whose waiting is read, at most: each takes some 3 us while the runner is stopping."""

_MANY_WAITS, _FEW_WAITS = 0.1, 0.02
"""Waiting for cores as a share of the time, above which it says something, and below nothing."""


class CoreWaits(NamedTuple):
    """Waiting for cores during one answer, nanoseconds."""

    foreign_ns: float = 0.0
    """Of the elapsed time, while programs of others had the core."""
    left_ns: float = 0.0
    """All other waiting of the runner's threads and the judge's, which may be the runner's own."""
    first_left_ns: float = 0.0
    """Of that, what the runner's first thread and the judge waited."""


class ThreadTimes(NamedTuple):
    """What the scheduler of Linux counts for a thread, nanoseconds."""

    ran_ns: int
    waited_ns: int


class WaitMeter:
    """Reads what the threads of one runner wait, around its answer to one command.

    A context, in which files of the threads are open.
    """

    def __init__(self, pid: int, *, may_fork: bool) -> None:
        """Begin, while the runner is stopped or waits for a command.

        Args:
            pid: Of the runner; its first thread answers.
            may_fork: Whether it could start a process that takes its core.
        """
        self._pid, self._may_fork = pid, may_fork
        self._judge = _open_schedstat(Path("/proc/thread-self"))
        self._first = _open_schedstat(Path(f"/proc/{pid}/task/{pid}"))
        threads = (folder for folder in Path(f"/proc/{pid}/task").glob("[0-9]*"))
        others = [folder for folder in threads if folder.name != str(pid)][:_MAX_THREADS]
        self._others = [_open_schedstat(folder) for folder in others]
        self._last_pid = last_pid() if may_fork else 0
        self._cpu_ns = cpu_time_ns(pid)
        self._others_waited_ns = self._read_others()
        self._first_times, self._judge_times = _read_times(self._first), _read_times(self._judge)
        self._first_answer, self._judge_answer = self._first_times, self._judge_times
        self._delay_ns = 0.0

    def __enter__(self) -> WaitMeter:
        return self

    def __exit__(self, *_error: object) -> None:
        for file in (self._judge, self._first, *self._others):
            if file is not None:
                os.close(file)

    def note_answer(self, delay_ns: float) -> None:
        """Read the two threads whose waiting delays the answer; it has just come.

        Args:
            delay_ns: From when it was sent until the judge had it. Only that can be a loss of time
                of what the judge waited: while the runner is at work, the judge may wait for it.
        """
        self._delay_ns = delay_ns
        self._judge_answer, self._first_answer = _read_times(self._judge), _read_times(self._first)

    def note_end(self) -> None:
        """Read the other threads; the clock has stopped, and the runner is being stopped."""
        self._others_waited_ns = self._read_others() - self._others_waited_ns

    def finish(self, elapsed_ns: float) -> CoreWaits:
        """Return what was waited until ``note_answer``; the runner is stopped, or waits.

        Args:
            elapsed_ns: By the judge's clock.
        """
        first_ran_ns = _read_times(self._first).ran_ns - self._first_times.ran_ns
        used_ns = max(0, cpu_time_ns(self._pid) - self._cpu_ns)
        has_forked = self._may_fork and not self._last_pid == last_pid() > 0
        judge_waited_ns = self._judge_answer.waited_ns - self._judge_times.waited_ns
        first_waited_ns = self._first_answer.waited_ns - self._first_times.waited_ns
        waited_ns = first_waited_ns + min(judge_waited_ns, self._delay_ns)
        foreign_ns = 0.0
        if not has_forked:
            others_ran_ns = max(0, used_ns - first_ran_ns)
            foreign_ns = find_foreign_wait_ns(elapsed_ns, waited_ns, used_ns, others_ran_ns)
        left_ns = max(0.0, waited_ns - foreign_ns)
        return CoreWaits(foreign_ns, left_ns + max(0, self._others_waited_ns), left_ns)

    def _read_others(self) -> int:
        return sum(_read_times(file).waited_ns for file in self._others)


def find_foreign_wait_ns(
    elapsed_ns: float, waited_ns: float, used_ns: float, others_ran_ns: float
) -> float:
    """Return how much of an elapsed time others had the core, at least.

    What is left of it is never less than all CPU time of the runner, unless that is more than the
    elapsed time itself.

    Args:
        elapsed_ns: By the judge's clock.
        waited_ns: Of the runner's first thread and the judge's, one after the other.
        used_ns: CPU time of all threads of the runner.
        others_ran_ns: The same without its first thread.
    """
    return max(0.0, min(waited_ns - others_ran_ns, elapsed_ns - used_ns))


def _open_schedstat(thread_folder: Path) -> int | None:
    with suppress(OSError):
        return os.open(thread_folder / "schedstat", os.O_RDONLY)
    return None


def _read_times(file: int | None) -> ThreadTimes:
    """Return what a thread ran and waited; zeros where Linux does not tell."""
    with suppress(OSError, ValueError):
        if file is not None:
            ran, waited, _count = os.pread(file, 64, 0).split()
            return ThreadTimes(int(ran), int(waited))
    return ThreadTimes(0, 0)


class BusyCores(NamedTuple):
    """How many cores a process keeps busy."""

    mean: float
    """Of its time: threads that ran, or were ready to run."""
    is_certain: bool
    """Whether that would be the same with no other program on the machine."""


def count_busy_cores(
    wall_ns: float, used_ns: float, first_waited_ns: float, others_waited_ns: float
) -> BusyCores:
    """Return how many cores a process keeps busy.

    A thread that waits for a core would keep one busy. But while it waits, others may sleep until
    it is done: so where much was waited the number is too small, unless one thread did everything.

    Args:
        wall_ns: Of the calls.
        used_ns: CPU time of all threads.
        first_waited_ns: What the calling thread waited for a core.
        others_waited_ns: The same of all other threads.
    """
    mean = (used_ns + first_waited_ns + others_waited_ns) / wall_ns
    waited = (first_waited_ns + others_waited_ns) / wall_ns
    others_waited = others_waited_ns / wall_ns
    is_alone = others_waited <= _FEW_WAITS and mean <= 1 + _FEW_WAITS
    return BusyCores(mean, waited <= _MANY_WAITS or is_alone)
