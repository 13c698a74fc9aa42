"""Run a program, and end whatever it has started: when it ends, when asked to, when we are alone.

Run as a file, by our own interpreter: ``supervisor.py PARENT PROGRAM ARGUMENT…``. What loses its
parent
becomes this process's child, so nothing gets away by a group, a session or a number of its own:
neither what ninja runs, nor what ncu runs, nor what forks and ends over and over. Linux asks it to
end (SIGTERM) when whoever started it has gone, by SIGKILL too.

It ends as the program ended, by the same signal or with the same status; once it was asked to end,
by SIGKILL.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time

_DEATH_SIGNAL, _CHILD_SUBREAPER = 1, 36
_PATIENCE_S = 20.0
"""A process that computes on a GPU takes a while to be taken apart."""


class _Asked(BaseException):
    """To end, by a signal."""


def main(parent: int, argv: list[str]) -> None:
    """Keep a program until its end."""
    signal.signal(signal.SIGTERM, _raise)
    try:
        _ask_linux(parent)
        code = _waited(os.posix_spawnp(argv[0], argv, os.environ, setsigdef=_IGNORED))
    except _Asked:
        code = -signal.SIGKILL
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        code = 127
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _end_children()
    _end_like(code)


_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them; a program must not inherit that."""


def _raise(_number: int, _frame: object) -> None:
    raise _Asked


def _ask_linux(parent: int) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_CHILD_SUBREAPER, 1)
    libc.prctl(_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:  # it was gone before Linux knew what to do then
        raise _Asked


def _waited(program: int) -> int:
    """Wait for the program, and bury others that end meanwhile; return its code, as Popen does."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == program:
            return os.waitstatus_to_exitcode(status)


def _end_children() -> None:
    """Kill children until there are none: what they leave behind become ours, and is next."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        for child in _children():
            _kill(child)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _kill(child: int) -> None:
    try:  # no contextlib: it would be a third of the time that a keeper takes to start
        os.kill(child, signal.SIGKILL)
    except OSError:
        return


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:
            return list(map(int, file.read().split()))
    except OSError:  # a kernel that keeps no such list
        everybody = map(int, filter(str.isdecimal, os.listdir("/proc")))
        return [one for one in everybody if _parent_of(one) == me]


def _parent_of(process: int) -> int:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _end_like(code: int) -> None:
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
