"""What Linux says about the runners' processes: whose they are, where they run, what they wait."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from kernelkb.measure.worker.shared.failures import UnsupportedHost

_RUNNER_PIDS: set[int] = set()
_KILL_TIMEOUT_S = 5.0


def become_subreaper() -> None:
    """Become the parent of whatever runners leave behind, which else nobody can keep track of."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1)


def register_runner(pid: int) -> None:
    """Remember a child of ours that is a runner; every other one is an orphan."""
    _RUNNER_PIDS.add(pid)


def unregister_runner(pid: int) -> None:
    """Forget a runner that has ended and was waited for."""
    _RUNNER_PIDS.discard(pid)


def list_all_descendants() -> list[int]:
    """Return the processes of our session that a runner started, directly or not."""
    ours = os.getsid(0)
    known = {os.getpid(), os.getppid(), *_RUNNER_PIDS}  # the parent is the keeper
    return [
        process
        for process, (_, session) in _read_process_table().items()
        if session == ours and process not in known
    ]


def list_descendants(pid: int) -> list[int]:
    """Return what one runner started; orphans count as its own, as nobody else makes them."""
    processes, me = _read_process_table(), os.getpid()
    found = []
    for process in list_all_descendants():
        top = process
        while top not in _RUNNER_PIDS and processes.get(top, (me, 0))[0] not in (0, 1, me):
            top = processes[top][0]
        if top == pid or top not in _RUNNER_PIDS:
            found.append(process)
    return found


def kill_with_descendants(pid: int) -> None:
    """Kill a runner, and with it whatever it started: nobody else is to be asked for that."""
    processes = _read_process_table()
    mine = {pid}
    while more := {one for one, (parent, _) in processes.items() if parent in mine} - mine:
        mine |= more
    _kill_processes(mine)


def kill_orphans() -> None:
    """Kill what runners left behind, until nothing is left.

    What forks and ends at once is under another number whenever one looks. But each of them is our
    child as soon as its parent has gone, and those are quickly listed.
    """
    end = time.monotonic() + _KILL_TIMEOUT_S
    while time.monotonic() < end and (left := _list_orphans()):
        _kill_processes(left)
        for process in left:
            with suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)


def _list_orphans() -> set[int]:
    found: set[int] = set()
    for thread in Path("/proc/self/task").glob("[0-9]*"):
        with suppress(OSError):
            found |= set(map(int, (thread / "children").read_text("ascii").split()))
    return found - _RUNNER_PIDS


def _kill_processes(pids: Iterable[int]) -> None:
    for process in pids:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)


def wait_off_cpu(pid: int) -> None:
    """Wait until no thread of a stopped process is on a core any more.

    A process counts as stopped before the last of its threads has left its core. The kernel waits
    for just that before it tells where in a system call a thread is.
    """
    for thread in _list_thread_folders(pid):
        with suppress(OSError):
            (thread / "syscall").read_bytes()


def read_affinities(pid: int) -> dict[int, frozenset[int]]:
    """Return for each thread of a process the cores that it may use."""
    found = {}
    for entry in _list_thread_folders(pid):
        with suppress(OSError):
            found[int(entry.name)] = frozenset(os.sched_getaffinity(int(entry.name)))
    return found


def restore_affinities(affinities: dict[int, frozenset[int]]) -> None:
    """Give threads the cores that they had, where somebody sent them to others."""
    for thread, had in affinities.items():
        with suppress(OSError):
            if os.sched_getaffinity(thread) != had:
                os.sched_setaffinity(thread, had)


def runqueue_wait_ns(pid: int) -> int:
    """Return how long the threads of a process have stood in line for a core, nanoseconds."""
    return sum(_read_schedstat(thread)[1] for thread in _list_thread_folders(pid))


def thread_runqueue_wait_ns() -> int:
    """Return how long the calling thread has stood in line for a core, nanoseconds."""
    return _read_schedstat(Path("/proc/thread-self"))[1]


def cpu_time_ns(pid: int) -> int:
    """Return how long the threads of a process have run, nanoseconds, by the kernel's account."""
    return sum(_read_schedstat(thread)[0] for thread in _list_thread_folders(pid))


def _list_thread_folders(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/task").glob("[0-9]*")


def _read_schedstat(thread_folder: Path) -> tuple[int, int]:
    """Return how long a thread ran and how long it waited for a core."""
    with suppress(OSError, ValueError):
        ran, waited, _ = (thread_folder / "schedstat").read_text("ascii").split()
        return int(ran), int(waited)
    return 0, 0


def read_status(pid: int) -> dict[str, str]:
    """Return the fields of ``/proc/PID/status``; empty when it is gone."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/status").read_text("utf-8")
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return {}


def cpu_ticks(pid: int) -> int:
    """Return the CPU time that a process and its threads have taken, in the kernel's ticks."""
    text = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2]
    user, system = text.split()[11:13]
    return int(user) + int(system)


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Return memory of a process that we started; nothing where it cannot be read whole.

    Raises:
        Unfit: No process may read another one's memory here.
    """
    found = bytearray(size)
    done = 0
    try:
        file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    except PermissionError as error:
        gap = "this machine does not let a parent read what its child computed"
        raise UnsupportedHost(
            f"{gap}; set kernel.yama.ptrace_scope to 1, or allow ptrace"
        ) from error
    except OSError:
        return b""
    try:
        with suppress(OSError, OverflowError):
            while done < size:
                done += os.preadv(file, [memoryview(found)[done:]], address + done)
    finally:
        os.close(file)
    return bytes(found) if done == size else b""


def _read_process_table() -> dict[int, tuple[int, int]]:
    """Return parent and session of every process that has not ended."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
            if fields[0] not in "ZX":
                found[int(entry.name)] = (int(fields[1]), int(fields[3]))
    return found
