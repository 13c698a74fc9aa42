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

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_KILL_TIMEOUT_S = 20.0
"""A process that computes on a GPU takes a while to be taken apart."""


class _TerminationRequest(BaseException):
    """To end, by a signal."""


def main(parent: int, argv: list[str]) -> None:
    """Keep a program until its end."""
    signal.signal(signal.SIGTERM, _raise_termination)
    try:
        _become_subreaper(parent)
        code = _wait_and_reap(
            os.posix_spawnp(argv[0], argv, os.environ, setsigdef=_SIGNALS_TO_RESET)
        )
    except _TerminationRequest:
        code = -signal.SIGKILL
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        code = 127
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _kill_descendants()
    _exit_like(code)


_SIGNALS_TO_RESET = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them; a program must not inherit that."""


def _raise_termination(_number: int, _frame: object) -> None:
    raise _TerminationRequest


def _become_subreaper(parent: int) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it was gone before Linux knew what to do then
        raise _TerminationRequest


def _wait_and_reap(pid: int) -> int:
    """Wait for the program, and bury others that end meanwhile; return its code, as Popen does."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def _kill_descendants() -> None:
    """Kill children until there are none: what they leave behind become ours, and is next."""
    end = time.monotonic() + _KILL_TIMEOUT_S
    while time.monotonic() < end:
        for child in _list_children():
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


def _list_children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:
            return list(map(int, file.read().split()))
    except OSError:  # a kernel that keeps no such list
        everybody = map(int, filter(str.isdecimal, os.listdir("/proc")))
        return [one for one in everybody if _read_parent_pid(one) == me]


def _read_parent_pid(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _exit_like(code: int) -> None:
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
