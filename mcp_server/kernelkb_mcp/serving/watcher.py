"""Ends a server that was asked to end and cannot: a call in C may hold Python's lock for hours.

Run as a file, by our own interpreter: ``watcher.py SERVER_PID CHANNEL PACKAGES``; its standard
input is that of the server, or empty, and PACKAGES is the folder from which ``kernelkb`` is
imported. Python writes the number of each signal that reaches the server to the channel, in the
signal handler itself, where no lock is needed. The end of the input is seen here.

Then the server is asked whether it still runs, again and again until it has ended; a thread of its
own answers. One that works on without an answer is killed, and when its children have ended, its
scratch folders are removed.

It lives as long as the server, so it loads little, and it sleeps until something happens.
"""

import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress

_ANSWER_TIMEOUT_S = 1.4
"""The server is gone within 2 s in any case."""
_STUCK_CPU_S = 0.5
"""Of the server, in that time; an answer takes 1 ms. On a busy machine one may be late."""
_SLEEPING_TIMEOUT_S = 15.0
"""For a server that neither works nor answers."""
_POLL_MS = 200
_CHILD_TIMEOUT_S = 30.0
"""For the children of a killed server; ``supervisor.py`` gives its own 20 s."""


def main(server_pid: int, channel: socket.socket, packages: str) -> None:
    """Watch until the server has ended; remove its scratch folders if it was killed."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    server = os.pidfd_open(server_pid)
    if os.getppid() != server_pid:
        return
    events = select.poll()
    events.register(server, select.POLLIN)
    events.register(channel, select.POLLIN)
    events.register(0, select.POLLHUP | select.POLLRDHUP)
    is_ending, asked = False, None
    while not _is_stuck(asked, server_pid):
        found = dict(events.poll(_POLL_MS if is_ending else None))
        if server in found:
            return
        requests = [0] if not found and asked is None else []
        if 0 in found:
            events.unregister(0)
            requests += [0] if found[0] & (select.POLLHUP | select.POLLRDHUP) else []
        if channel.fileno() in found:
            received = channel.recv(64)
            requests += [number for number in received if number]
            asked = None if 0 in received else asked
        if requests:
            channel.send(bytes(requests))
            is_ending = True
            asked = asked or (time.monotonic(), _read_cpu_time(server_pid))
    children = _open_children(server_pid)
    signal.pidfd_send_signal(server, signal.SIGKILL)
    _wait_for_all([server, *children])
    sys.path.append(packages)
    from kernelkb.measure.process.subprocesses import remove_abandoned_folders

    remove_abandoned_folders()


def _open_children(server_pid: int) -> list[int]:
    """Return descriptors of the server's children besides this process."""
    children = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError, IndexError):
                if int(_read_stat(int(name))[1]) == server_pid:
                    children.append(os.pidfd_open(int(name)))
    return children


def _wait_for_all(processes: list[int]) -> None:
    """Wait until processes have ended, for some time."""
    end = time.monotonic() + _CHILD_TIMEOUT_S
    for process in processes:
        select.select([process], [], [], max(0.0, end - time.monotonic()))


def _is_stuck(asked: tuple[float, float] | None, server_pid: int) -> bool:
    """Return whether the server, asked at a time and at a CPU time of its own, cannot answer."""
    if asked is None:
        return False
    silent_s, worked_s = time.monotonic() - asked[0], _read_cpu_time(server_pid) - asked[1]
    is_working = silent_s > _ANSWER_TIMEOUT_S and worked_s > _STUCK_CPU_S
    return is_working or silent_s > _SLEEPING_TIMEOUT_S


def _read_cpu_time(pid: int) -> float:
    """Return the seconds that a process has worked; 0 where it is gone."""
    try:
        fields = _read_stat(pid)
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read_stat(pid: int) -> list[bytes]:
    """Return the fields of ``/proc/PID/stat`` from the state on, which follows the name."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


if __name__ == "__main__":
    main(int(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])), sys.argv[3])
