"""Child subreaper: kill the whole process tree on exit, on SIGTERM, or when the parent dies.

Run as a file, by our own interpreter: ``supervisor.py PARENT_PID PROGRAM ARGUMENT…``. Every orphan
below it becomes its child (PR_SET_CHILD_SUBREAPER), so no process escapes by a process group, a
session or repeated forks: neither the compilers of ninja nor the targets of ncu. The kernel sends
it SIGTERM when its parent ends (PR_SET_PDEATHSIG), by SIGKILL too.

It exits with the program's status, or dies of the same signal; after SIGTERM it dies of SIGKILL.
The program starts with default signal dispositions, also under ``nohup`` or in the background.

Start-up time counts here: only modules that Python has loaded anyway, and ctypes.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl(2), from linux/prctl.h."""
_KILL_TIMEOUT_S = 20.0
"""Chosen: a process with work on a GPU can take seconds to exit after SIGKILL."""
_SIGNALS_TO_RESET = (
    *(signal.SIGPIPE, signal.SIGXFSZ),
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGHUP),
)
"""Set to their defaults for the program: exec inherits ignored signals.

Python ignores the first two; ``nohup`` and the shell's background jobs ignore the others, which
would let a candidate survive a signal in one run that ends it in another.
"""


class _TerminationRequest(BaseException):
    """SIGTERM arrived, or the parent is gone."""


def main(parent_pid: int, argv: list[str]) -> None:
    """Run a program, kill what it leaves behind, and exit as it did."""
    signal.signal(signal.SIGTERM, _raise_termination)
    try:
        _become_subreaper(parent_pid)
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


def _raise_termination(_number: int, _frame: object) -> None:
    raise _TerminationRequest


def _become_subreaper(parent_pid: int) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:  # it ended before the prctl above
        raise _TerminationRequest


def _wait_and_reap(pid: int) -> int:
    """Wait for the program, reaping orphans meanwhile; return its code as ``Popen`` does."""
    while True:
        ended_pid, status = os.waitpid(-1, 0)
        if ended_pid == pid:
            return os.waitstatus_to_exitcode(status)


def _kill_descendants() -> None:
    """Kill our children until there are none; the orphans of each become our next children."""
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    while time.monotonic() < deadline:
        for child in _list_children():
            _kill(child)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _kill(child: int) -> None:
    try:  # no contextlib: its import takes a third of this program's start-up time
        os.kill(child, signal.SIGKILL)
    except OSError:
        return


def _list_children() -> list[int]:
    own_pid = os.getpid()
    try:
        with open(f"/proc/{own_pid}/task/{own_pid}/children", "rb") as file:
            return list(map(int, file.read().split()))
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        pids = map(int, filter(str.isdecimal, os.listdir("/proc")))
        return [pid for pid in pids if _read_parent_pid(pid) == own_pid]


def _read_parent_pid(pid: int) -> int:
    """Return the parent of a process; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _exit_like(code: int) -> None:
    """End with an exit status, or by the signal of a negative code, without a core file."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
