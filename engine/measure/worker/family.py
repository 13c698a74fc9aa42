"""What Linux says about the runners' processes: whose they are, where they run, what they wait."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def family() -> list[int]:
    """Return the processes of our session that a runner started, directly or not."""
    ours, me = os.getsid(0), os.getpid()
    return [
        process
        for process, (parent, session) in _processes().items()
        if session == ours and me not in (process, parent)
    ]


def offspring(runner: int) -> list[int]:
    """Return what one runner started; orphans count as its own, as nobody else makes them."""
    processes, ours, me = _processes(), os.getsid(0), os.getpid()
    found = []
    for process, (parent, session) in processes.items():
        if session != ours or me in (process, parent):
            continue
        top = process
        while processes.get(top, (0, 0))[0] not in (0, 1, me):
            top = processes[top][0]
        if top == runner or processes.get(top, (0, 0))[0] != me:
            found.append(process)
    return found


def end_with_children(runner: int) -> None:
    """Kill a runner, and before it whatever it started: nobody else is to be asked for that."""
    processes = _processes()
    mine = {runner}
    while more := {one for one, (parent, _) in processes.items() if parent in mine} - mine:
        mine |= more
    for process in mine:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)


def cores_of(process: int) -> dict[int, frozenset[int]]:
    """Return for each thread of a process the cores that it may use."""
    found = {}
    for entry in Path(f"/proc/{process}/task").glob("[0-9]*"):
        with suppress(OSError):
            found[int(entry.name)] = frozenset(os.sched_getaffinity(int(entry.name)))
    return found


def put_back(cores: dict[int, frozenset[int]]) -> None:
    """Give threads the cores that they had, where somebody sent them to others."""
    for thread, had in cores.items():
        with suppress(OSError):
            if os.sched_getaffinity(thread) != had:
                os.sched_setaffinity(thread, had)


def waited_ns(process: int) -> int:
    """Return how long the threads of a process have stood in line for a core, nanoseconds."""
    return sum(map(_waited_ns, Path(f"/proc/{process}/task").glob("[0-9]*")))


def waited_here_ns() -> int:
    """Return how long the calling thread has stood in line for a core, nanoseconds."""
    return _waited_ns(Path("/proc/thread-self"))


def _waited_ns(thread: Path) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int((thread / "schedstat").read_text("ascii").split()[1])
    return 0


def status_of(process: int) -> dict[str, str]:
    """Return the fields of ``/proc/PID/status``; empty when it is gone."""
    with suppress(OSError):
        text = Path(f"/proc/{process}/status").read_text("utf-8")
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return {}


def cpu_ticks(process: int) -> int:
    """Return the CPU time that a process and its threads have taken, in the kernel's ticks."""
    text = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2]
    user, system = text.split()[11:13]
    return int(user) + int(system)


def _processes() -> dict[int, tuple[int, int]]:
    """Return parent and session of every process that has not ended."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
            if fields[0] not in "ZX":
                found[int(entry.name)] = (int(fields[1]), int(fields[3]))
    return found
