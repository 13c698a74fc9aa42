"""A process that stands still when it is told to, with all its threads."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from kernelkb.measure.worker.judge.procfs import (
    cpu_time_ns,
    read_affinities,
    read_status,
    restore_affinities,
    wait_off_cpu,
)

_STOP_TIMEOUT_S = 5.0
_POLL_S = 2e-5
_STOP_SLACK_NS = 100_000  # where ``settle`` may not look: the last thread stops after it says so


class ProcessPauser:
    """Stops a process and lets it go on.

    Attributes:
        stopped: Whether it was told to stop.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.is_stopped = False
        self._affinities: dict[int, frozenset[int]] = {}
        self._cpu_time_ns = 0

    def send_stop(self) -> None:
        """Tell it to stop: threads that run do so at once, those that stand in line when they run.

        ``pause`` waits for the last one, which is no time of its work.
        """
        if not self.is_stopped:
            self.is_stopped = True
            self._process.send_signal(signal.SIGSTOP)

    def pause(self) -> None:
        """Stop it, and return once it stands; ``moved`` says whether it did not stay so.

        It is not reaped if it has ended.
        """
        self.send_stop()
        end = time.monotonic() + _STOP_TIMEOUT_S
        how = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
        while os.waitid(os.P_PID, self._process.pid, how) is None and time.monotonic() < end:
            time.sleep(_POLL_S)
        wait_off_cpu(self._process.pid)
        self._affinities = read_affinities(self._process.pid)
        self._cpu_time_ns = cpu_time_ns(self._process.pid)

    def activity_while_stopped(self) -> str | None:
        """Say how it did not stand all the time, which a timer of its own can bring about.

        Its threads get the cores back that they had, should somebody have sent them to others.
        """
        restore_affinities(self._affinities)
        state = read_status(self._process.pid).get("State", "T")
        if state[0] not in "TZ":
            return f"its state was {state}"
        more = cpu_time_ns(self._process.pid) - self._cpu_time_ns
        return f"it ran {more / 1e6:.2g} ms" if more > _STOP_SLACK_NS else None

    def resume(self) -> None:
        """Let it go on."""
        self.is_stopped = False
        self._process.send_signal(signal.SIGCONT)
