"""Process tree, CPU affinity, run-queue wait and memory of runner processes, from /proc."""

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
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_ENDED_STATES = "ZX"  # zombie, dead


def become_subreaper() -> None:
    """Become the parent of orphaned descendants, so that they can be found and killed."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def register_runner(pid: int) -> None:
    """Register a child of this process as a runner; all other children are orphans."""
    _RUNNER_PIDS.add(pid)


def unregister_runner(pid: int) -> None:
    """Forget a runner that was waited for."""
    _RUNNER_PIDS.discard(pid)


def list_all_descendants() -> list[int]:
    """Return the pids of our session that runners started, directly or not."""
    own_session = os.getsid(0)
    excluded = {os.getpid(), os.getppid(), *_RUNNER_PIDS}  # the parent is the supervisor
    return [
        pid
        for pid, (_, session) in _read_process_table().items()
        if session == own_session and pid not in excluded
    ]


def list_descendants(pid: int) -> list[int]:
    """Return the pids that one runner started; orphans count as descendants of every runner."""
    processes, own_pid = _read_process_table(), os.getpid()
    descendants = []
    for process in list_all_descendants():
        ancestor = process
        while ancestor not in _RUNNER_PIDS:
            parent = processes.get(ancestor, (own_pid, 0))[0]
            if parent in (0, 1, own_pid):
                break
            ancestor = parent
        if ancestor == pid or ancestor not in _RUNNER_PIDS:
            descendants.append(process)
    return descendants


def kill_with_descendants(pid: int) -> None:
    """Kill a runner and everything below it in the process tree."""
    processes = _read_process_table()
    tree = {pid}
    while children := {p for p, (parent, _) in processes.items() if parent in tree} - tree:
        tree |= children
    _kill_processes(tree)


def kill_orphans() -> None:
    """Kill and reap orphans of runners until none is left.

    A process that forks and exits in a loop has a new pid at every look. But each becomes our child
    when its parent exits, and listing our children is fast.
    """
    end = time.monotonic() + _KILL_TIMEOUT_S
    while time.monotonic() < end and (orphans := _list_orphans()):
        _kill_processes(orphans)
        for pid in orphans:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _list_orphans() -> set[int]:
    """Return the pids of our children that are no runners."""
    children: set[int] = set()
    for thread in Path("/proc/self/task").glob("[0-9]*"):
        with suppress(OSError):
            children |= set(map(int, (thread / "children").read_text("ascii").split()))
    return children - _RUNNER_PIDS


def _kill_processes(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def wait_off_cpu(pid: int) -> None:
    """Wait until no thread of a stopped process is on a core any more.

    A process is reported as stopped before the last of its threads has left its core. Reading
    ``/proc/PID/task/TID/syscall`` waits for that in the kernel.
    """
    for thread in _list_thread_folders(pid):
        with suppress(OSError):
            (thread / "syscall").read_bytes()


def read_affinities(pid: int) -> dict[int, frozenset[int]]:
    """Return the cores that each thread of a process may use, by thread id."""
    affinities = {}
    for folder in _list_thread_folders(pid):
        with suppress(OSError):
            affinities[int(folder.name)] = frozenset(os.sched_getaffinity(int(folder.name)))
    return affinities


def restore_affinities(affinities: dict[int, frozenset[int]]) -> None:
    """Restore the affinities of ``read_affinities`` where another process has changed them."""
    for thread, cores in affinities.items():
        with suppress(OSError):
            if os.sched_getaffinity(thread) != cores:
                os.sched_setaffinity(thread, cores)


def runqueue_wait_ns(pid: int) -> int:
    """Return how long the threads of a process have waited on the run queue, nanoseconds."""
    return sum(_read_schedstat(thread)[1] for thread in _list_thread_folders(pid))


def thread_runqueue_wait_ns() -> int:
    """Return how long the calling thread has waited on the run queue, nanoseconds."""
    return _read_schedstat(Path("/proc/thread-self"))[1]


def cpu_time_ns(pid: int) -> int:
    """Return the CPU time of all threads of a process, nanoseconds, by the scheduler's account."""
    return sum(_read_schedstat(thread)[0] for thread in _list_thread_folders(pid))


def _list_thread_folders(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/task").glob("[0-9]*")


def _read_schedstat(thread_folder: Path) -> tuple[int, int]:
    """Return a thread's CPU time and run-queue wait, nanoseconds; zeros when it is gone."""
    with suppress(OSError, ValueError):
        ran, waited, _ = (thread_folder / "schedstat").read_text("ascii").split()
        return int(ran), int(waited)
    return 0, 0


def read_status(pid: int) -> dict[str, str]:
    """Return the fields of ``/proc/PID/status``; empty when the process is gone."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/status").read_text("utf-8")
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return {}


def cpu_ticks(pid: int) -> int:
    """Return the CPU time of a process with all its threads, in clock ticks (``SC_CLK_TCK``)."""
    text = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2]
    user, system = text.split()[11:13]
    return int(user) + int(system)


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Return ``size`` bytes of a child's memory; empty where they cannot be read completely.

    Raises:
        UnsupportedHost: This machine does not let a parent read its child's memory.
    """
    data = bytearray(size)
    done = 0
    try:
        file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    except PermissionError as error:
        raise UnsupportedHost(
            "this machine does not let a process read its child's memory",
            "set kernel.yama.ptrace_scope to 1, or allow ptrace",
        ) from error
    except OSError:
        return b""
    try:
        with suppress(OSError, OverflowError):
            while done < size:
                done += os.preadv(file, [memoryview(data)[done:]], address + done)
    finally:
        os.close(file)
    return bytes(data) if done == size else b""


def _read_process_table() -> dict[int, tuple[int, int]]:
    """Return (parent pid, session id) of every process that has not ended, by pid."""
    table = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            state, parent, _, session = (
                (folder / "stat").read_text("utf-8").rpartition(")")[2].split()[:4]
            )
            if state not in _ENDED_STATES:
                table[int(folder.name)] = (int(parent), int(session))
    return table
