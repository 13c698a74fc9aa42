"""Ends a server that was asked to end and cannot: a call in C may hold Python's lock for hours.

Run as a file, by our own interpreter: ``watcher.py SERVER_PID CHANNEL``; its standard input is that
of the server, or empty. Python writes the number of each signal that reaches the server to the
channel, in the signal handler itself, where no lock is needed. The end of the input is seen here.

Then the server is asked whether it still runs, again and again until it has ended; a thread of its
own answers. One that works on without an answer is killed.

It lives as long as the server, so it loads little, and it sleeps until something happens.
"""

import os
import select
import signal
import socket
import sys
import time

_ANSWER_TIMEOUT_S = 1.4
"""The server is gone within 2 s in any case."""
_STUCK_CPU_S = 0.5
"""Of the server, in that time; an answer takes 1 ms. On a busy machine one may be late."""
_SLEEPING_TIMEOUT_S = 15.0
"""For a server that neither works nor answers."""
_POLL_MS = 200


def main(server_pid: int, channel: socket.socket) -> None:
    """Watch until the server has ended."""
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
    signal.pidfd_send_signal(server, signal.SIGKILL)


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
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(int(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])))
