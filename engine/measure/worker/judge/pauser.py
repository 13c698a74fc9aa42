"""A process that stands still when it is told to, with all its threads."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from kernelkb.measure.worker.judge.procfs import cores_of, put_back, ran_ns, settle, status_of

_PATIENCE_S = 5.0
_LOOK_S = 2e-5
_STOPPING_NS = 100_000  # where ``settle`` may not look: the last thread stops after it says so


class Held:
    """Stops a process and lets it go on.

    Attributes:
        stopped: Whether it was told to stop.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.stopped = False
        self._cores: dict[int, frozenset[int]] = {}
        self._ran_ns = 0

    def halt(self) -> None:
        """Tell it to stop: threads that run do so at once, those that stand in line when they run.

        ``pause`` waits for the last one, which is no time of its work.
        """
        if not self.stopped:
            self.stopped = True
            self._process.send_signal(signal.SIGSTOP)

    def pause(self) -> None:
        """Stop it, and return once it stands; ``moved`` says whether it did not stay so.

        It is not reaped if it has ended.
        """
        self.halt()
        end = time.monotonic() + _PATIENCE_S
        how = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
        while os.waitid(os.P_PID, self._process.pid, how) is None and time.monotonic() < end:
            time.sleep(_LOOK_S)
        settle(self._process.pid)
        self._cores = cores_of(self._process.pid)
        self._ran_ns = ran_ns(self._process.pid)

    def moved(self) -> str | None:
        """Say how it did not stand all the time, which a timer of its own can bring about.

        Its threads get the cores back that they had, should somebody have sent them to others.
        """
        put_back(self._cores)
        state = status_of(self._process.pid).get("State", "T")
        if state[0] not in "TZ":
            return f"its state was {state}"
        more = ran_ns(self._process.pid) - self._ran_ns
        return f"it ran {more / 1e6:.2g} ms" if more > _STOPPING_NS else None

    def go_on(self) -> None:
        """Let it go on."""
        self.stopped = False
        self._process.send_signal(signal.SIGCONT)
