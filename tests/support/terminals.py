"""A program on a pseudo-terminal."""

import os
import pty
import re
import select
import signal
import sys
import time

PROGRAM = "import sys; from kernelkb.cli import start; sys.exit(start())"


class Terminal:
    """A Python program whose controlling terminal is a pseudo-terminal; by default ``kb``."""

    def __init__(self, *words, program=PROGRAM):
        self.said = ""
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.environ["COLUMNS"] = "100"
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.execv(sys.executable, [sys.executable, "-c", program, *words])  # noqa: S606

    def read_until(self, pattern, seconds=120):
        """Read until the output matches; False where it ended or took too long."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.said):
            left = end - time.monotonic()
            if left < 0 or not select.select([self._master], [], [], left)[0]:
                return False
            try:
                part = os.read(self._master, 4096)
            except OSError:  # the other side was closed
                return False
            self.said += part.decode(errors="replace")
        return True

    def press_ctrl_c(self):
        os.write(self._master, b"\x03")

    def wait(self):
        """Return the exit status, and read the rest."""
        self.read_until(r"\Z.\A")
        _, status = os.waitpid(self.pid, 0)
        os.close(self._master)
        return os.waitstatus_to_exitcode(status)
