"""Watches the threads of a runner's process: while it has a command, and while it has none."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from kernelkb.measure.worker.judge.processes.procfs import cpu_ticks, cpu_time_ns
from kernelkb.measure.worker.judge.processes.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError
from kernelkb.measure.worker.shared.messages.runner_commands import RunBatchCommand

_SPIN_DOWN_S = 0.1
"""OpenMP threads spin for a while after a region before they sleep."""
_IDLE_SAMPLE_S = 0.05
"""How long to watch a process that runs without a command."""
_BUSY_SAMPLE_S = 0.3
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

    def busy_cores(self, command: RunBatchCommand) -> float:
        """Return the mean number of cores that the process keeps busy, over 0.3 s of batches.

        Args:
            command: Runs one batch. The process is stopped afterwards.
        """
        time.sleep(_SPIN_DOWN_S)
        wall_s, ticks = 0.0, cpu_ticks(self._runner.pid)
        while wall_s < _BUSY_SAMPLE_S:
            start = time.perf_counter()
            self._runner.ask(command, _TIMEOUT_S)
            wall_s += time.perf_counter() - start
        self._runner.pause()
        return (cpu_ticks(self._runner.pid) - ticks) / os.sysconf("SC_CLK_TCK") / wall_s

    def idle_cpu_ns(self) -> float:
        """Return the CPU time that the process uses in 50 ms without a command; 0 if it ended.

        Threads of OpenMP, which spin for a while, have gone to sleep by then.
        """
        with suppress(RunnerDied, RunnerError):
            self._runner.ask({"command": "synchronize"}, _TIMEOUT_S)
            time.sleep(_SPIN_DOWN_S)
            start_ns = cpu_time_ns(self._runner.pid)
            time.sleep(_IDLE_SAMPLE_S)
            used_ns = cpu_time_ns(self._runner.pid) - start_ns
            self._runner.pause()
            return float(max(0, used_ns))
        return 0.0
