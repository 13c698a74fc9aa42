"""Watches whether a runner's process has threads that work while it has no command."""

from __future__ import annotations

import time
from contextlib import suppress

from kernelkb.measure.worker.judge.procfs import cpu_time_ns
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError

SPIN_DOWN_S = 0.1
"""OpenMP threads spin for a while after a region before they sleep."""
_IDLE_SAMPLE_S = 0.05
"""How long to watch a process that runs without a command."""
_TIMEOUT_S = 60.0


class RunnerThreads:
    """Threads of one runner's process."""

    def __init__(self, runner: RunnerProcess) -> None:
        self._runner = runner
        self._warm_count = 0

    def note_warm(self) -> None:
        """Take the present number for that of a process that has made its first calls."""
        self._warm_count = self._runner.thread_count()

    def count_new(self) -> int:
        """Return how many more there are than when it was warm; 0 if the process ended."""
        with suppress(OSError, ValueError):
            return max(0, self._runner.thread_count() - self._warm_count)
        return 0

    def idle_cpu_ns(self) -> float:
        """Return the CPU time that the process uses in 50 ms without a command; 0 if it ended.

        Threads of OpenMP, which spin for a while, have gone to sleep by then.
        """
        with suppress(RunnerDied, RunnerError):
            self._runner.ask({"command": "synchronize"}, _TIMEOUT_S)
            time.sleep(SPIN_DOWN_S)
            start_ns = cpu_time_ns(self._runner.pid)
            time.sleep(_IDLE_SAMPLE_S)
            used_ns = cpu_time_ns(self._runner.pid) - start_ns
            self._runner.pause()
            return float(max(0, used_ns))
        return 0.0
