"""A process that stands still when it is told to, with all its threads."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from engine.measure.worker.family import cores_of, put_back, ran_ns, status_of

_PATIENCE_S = 5.0
_LOOK_S = 2e-5
_STOPPING_NS = 100_000  # the last thread says that it stops before it does


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
        """Stop it, and return once it stands; ``stood`` says whether it does.

        It is not reaped if it has ended.
        """
        self.halt()
        end = time.monotonic() + _PATIENCE_S
        how = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
        while os.waitid(os.P_PID, self._process.pid, how) is None and time.monotonic() < end:
            time.sleep(_LOOK_S)
        self._cores = cores_of(self._process.pid)
        self._ran_ns = ran_ns(self._process.pid)

    def stood(self) -> bool:
        """Return whether it has stood all the time, which a timer of its own can end.

        Its threads get the cores back that they had, should somebody have sent them to others.
        """
        put_back(self._cores)
        stands = status_of(self._process.pid).get("State", "T")[0] in "TZ"
        return stands and ran_ns(self._process.pid) <= self._ran_ns + _STOPPING_NS

    def go_on(self) -> None:
        """Let it go on."""
        self.stopped = False
        self._process.send_signal(signal.SIGCONT)
