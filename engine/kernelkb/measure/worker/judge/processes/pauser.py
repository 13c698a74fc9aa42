"""Stops a process with all its threads (SIGSTOP), verifies that it stays stopped, resumes it."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from kernelkb.measure.worker.judge.processes.procfs import (
    cpu_time_ns,
    read_affinities,
    read_status,
    restore_affinities,
    wait_off_cpu,
)

_STOP_TIMEOUT_S = 5.0
_POLL_S = 2e-5
_STOP_SLACK_NS = 100_000
"""CPU time that a stopped process may still use, where /proc/PID/task/TID/syscall cannot be read:
its last thread leaves the core after the process is reported as stopped."""
_STOPPED_STATES = "TZ"  # stopped, zombie


class ProcessPauser:
    """Stops and resumes one process.

    Attributes:
        is_stopped: Whether SIGSTOP was the last signal sent.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.is_stopped = False
        self._affinities: dict[int, frozenset[int]] = {}
        self._judge_affinities: dict[int, frozenset[int]] = {}
        self._cpu_time_ns = 0

    def send_stop(self) -> None:
        """Send SIGSTOP without waiting.

        Threads that run stop at once, those on the run queue when they are scheduled; that wait is
        not time of the candidate's work.
        """
        if not self.is_stopped:
            self.is_stopped = True
            self._process.send_signal(signal.SIGSTOP)

    def pause(self) -> None:
        """Stop it and return when all its threads are off the CPU, or it has ended (unreaped).

        Also restores the cores of the judge's own threads, which it may have changed.
        """
        self.send_stop()
        end = time.monotonic() + _STOP_TIMEOUT_S
        events = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
        while os.waitid(os.P_PID, self._process.pid, events) is None and time.monotonic() < end:
            time.sleep(_POLL_S)
        wait_off_cpu(self._process.pid)
        restore_affinities(self._judge_affinities)
        self._affinities = read_affinities(self._process.pid)
        self._cpu_time_ns = cpu_time_ns(self._process.pid)

    def activity_while_stopped(self) -> str | None:
        """Report how it ran since ``pause``, as a SIGCONT from a timer can cause; None if not.

        Also restores the CPU affinities of its threads, which a rival may have changed.
        """
        restore_affinities(self._affinities)
        self._judge_affinities = read_affinities(os.getpid())
        state = read_status(self._process.pid).get("State", "T")
        if state[0] not in _STOPPED_STATES:
            return f"its state was {state}"
        ran_ns = cpu_time_ns(self._process.pid) - self._cpu_time_ns
        return f"it ran {ran_ns / 1e6:.2g} ms" if ran_ns > _STOP_SLACK_NS else None

    def resume(self) -> None:
        """Send SIGCONT."""
        self.is_stopped = False
        self._process.send_signal(signal.SIGCONT)
