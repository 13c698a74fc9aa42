"""Process tree, cores, run-queue wait and memory from /proc; processes stopped and started.

The one way that a candidate has to slow processes of others is to take cores from them, so all get
their cores back: each time that a runner stops, and where a bench waited for the end of a check.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kernelkb.measure.worker.shared.failures import UnsupportedHost

_RUNNER_PIDS: set[int] = set()
_KILL_TIMEOUT_S = 5.0
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_ENDED_STATES = b"ZX"  # zombie, dead
_STAT_BYTES = 4096
_CLOCK_PID_SHIFT, _CLOCK_OF_PROCESS = 3, 2
"""A clock's number is the inverted pid and the kind of clock: linux/posix-timers.h."""

_STOP_TIMEOUT_S = 5.0
_STOP_POLL_S = 2e-5
_STOP_SLACK_NS = 100_000
"""CPU time that a stopped process may still use, where /proc/PID/task/TID/syscall cannot be read:
its last thread leaves the core after the process is reported as stopped."""
_STOPPED_STATES = "TZ"  # stopped, zombie

_TGKILL = getattr(ctypes.CDLL(None), "tgkill", None)
"""Absent from a glibc before 2.30."""
_STDIN = 0
_FIRST_NICE, _SHORT_SLICE_NS = -20, 100_000
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_SCHED_ATTR = struct.Struct("IIQiIQQQ")  # linux/sched/types.h


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
    """Return the pids that runners started, directly or not, in any session."""
    return _find_descendants(_read_process_table())


def list_descendants(pid: int) -> list[int]:
    """Return the pids that one runner started; orphans count as descendants of every runner.

    Where another runner compiles, processes come and go meanwhile. One whose parent is not in the
    same reading of ``/proc`` has just lost it, and belongs to no runner until the next look: if it
    still runs then, it is this process's child, and an orphan.
    """
    processes, roots = _read_process_table(), (0, 1, os.getpid())
    descendants = []
    for process in _find_descendants(processes):
        ancestor = process
        while ancestor in processes and ancestor not in _RUNNER_PIDS and ancestor not in roots:
            ancestor = processes[ancestor][0]
        if ancestor == pid or ancestor in roots:
            descendants.append(process)
    return descendants


def _find_descendants(processes: Mapping[int, tuple[int, int]]) -> list[int]:
    own_session = os.getsid(0)
    excluded = {os.getpid(), os.getppid(), *_RUNNER_PIDS}  # the parent is the supervisor
    session = {pid for pid, (_, session) in processes.items() if session == own_session}
    return sorted((session | _find_tree(os.getpid(), processes)) - excluded)


def kill_with_descendants(pid: int) -> None:
    """Kill a runner and everything below it in the process tree."""
    _kill_processes(_find_tree(pid, _read_process_table()))


def _find_tree(pid: int, processes: Mapping[int, tuple[int, int]]) -> set[int]:
    """Return a process and all below it."""
    tree = {pid}
    while children := {p for p, (parent, _) in processes.items() if parent in tree} - tree:
        tree |= children
    return tree


def reap_orphans() -> None:
    """Reap the orphans of runners that have ended."""
    for pid in list_orphans():
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def kill_orphans() -> None:
    """Kill and reap orphans of runners until none is left.

    A process that forks and exits in a loop has a new pid at every look. But each becomes our child
    when its parent exits, and listing our children is fast.
    """
    end = time.monotonic() + _KILL_TIMEOUT_S
    while time.monotonic() < end and (orphans := list_orphans()):
        _kill_processes(orphans)
        reap_orphans()


def list_orphans() -> set[int]:
    """Return the pids of our children that are no runners, alive or ended and not reaped yet."""
    own_pid = os.getpid()
    children = _read_children(own_pid)
    if children is None:
        processes = _read_process_table(ended=True)
        children = {pid for pid, (parent, _) in processes.items() if parent == own_pid}
    return children - _RUNNER_PIDS


def has_running_child(pid: int) -> bool:
    """Return whether a process has a child that has not ended; False where Linux does not tell."""
    for child in _read_children(pid) or ():
        with suppress(OSError, IndexError):
            if _read_stat(str(child)).rpartition(b")")[2].split()[0] not in _ENDED_STATES:
                return True
    return False


def _read_children(pid: int) -> set[int] | None:
    """Return the children of a process; None from a kernel without CONFIG_PROC_CHILDREN."""
    children: set[int] = set()
    try:
        for thread in _list_thread_folders(pid):
            with suppress(ProcessLookupError):  # a thread that has just ended
                children |= set(map(int, (thread / "children").read_text("ascii").split()))
    except FileNotFoundError:
        return None
    return children


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


def raise_session() -> None:
    """Let the judge's session run before others, where that is permitted: see ``take_precedence``.

    Linux may share out the cores between sessions first, by the nice value of each.
    """
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_FIRST_NICE), "ascii")


def take_precedence(pid: int) -> None:
    """Let the threads of a process run before those of other programs, where that is permitted.

    It is to root, and is the same for all runners. Where it is not, what they wait for cores is
    measured all the same.
    """
    for thread in _list_thread_folders(pid):
        _set_nice(int(thread.name), _FIRST_NICE, _SHORT_SLICE_NS)


def _set_nice(thread: int, nice: int, slice_ns: int) -> bool:
    """Set nice value and time slice of a thread; return whether that is permitted.

    A short slice is for Linux from 6.12 on: else a thread that wakes up waits until the slice of
    another has ended, whatever its nice value. It is the default where it is 0.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    values = _SCHED_ATTR.pack(_SCHED_ATTR.size, 0, 0, nice, 0, slice_ns, 0, 0)
    return number is not None and ctypes.CDLL(None).syscall(number, thread, values, 0) == 0


@contextmanager
def share_core(pid: int) -> Iterator[None]:
    """Keep the calling thread, in the block, on the core of a process's first thread.

    It also has the precedence in the block that ``take_precedence`` gives, where that is permitted.

    That thread sleeps when it has answered, so we go on at once. OpenMP's other threads spin on the
    other cores for a while: where we last ran on one of those, we would wait for a time slice, 2 to
    4 ms, and whether we do would depend on the order in which the runners were started. A process
    whose first thread is bound to no core changes nothing.
    """
    own = os.sched_getaffinity(0)
    with suppress(OSError):
        cores = os.sched_getaffinity(pid)
        if len(cores) == 1:
            os.sched_setaffinity(0, cores)
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    is_first = _set_nice(0, _FIRST_NICE, _SHORT_SLICE_NS)
    try:
        yield
    finally:
        if is_first:
            _set_nice(0, nice, 0)
        with suppress(OSError):  # cores were taken away from this process
            os.sched_setaffinity(0, own)


def list_runqueue_waits_ns(pid: int) -> dict[int, int]:
    """Return how long each thread of a process has waited on the run queue, nanoseconds."""
    return {int(thread.name): _read_wait_ns(thread) for thread in _list_thread_folders(pid)}


def thread_runqueue_wait_ns() -> int:
    """Return how long the calling thread has waited on the run queue, nanoseconds."""
    return _read_wait_ns(Path("/proc/thread-self"))


def cpu_time_ns(pid: int) -> int:
    """Return the CPU time of all threads of a process, nanoseconds; 0 when it is gone.

    Threads that have ended are included. It is exact while the process is stopped.
    """
    with suppress(OSError):
        return time.clock_gettime_ns(~pid << _CLOCK_PID_SHIFT | _CLOCK_OF_PROCESS)
    return 0


def last_pid() -> int:
    """Return the number of the process or thread that was started last, by anybody."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/loadavg").read_text("ascii").split()[-1])
    return 0


def _stop_threads(pid: int, threads: Iterable[int]) -> None:
    """Send SIGSTOP to each of some threads: the first that runs stops them all.

    Sent to the process alone it goes to one that sleeps, mostly, and until that is scheduled the
    others run on, for milliseconds where cores are short.
    """
    if _TGKILL:
        for thread in threads:
            _TGKILL(pid, thread, signal.SIGSTOP)


def _list_thread_folders(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/task").glob("[0-9]*")


def _read_wait_ns(thread_folder: Path) -> int:
    """Return how long a thread has waited on the run queue, nanoseconds; 0 when it is gone."""
    with suppress(OSError, ValueError):
        _ran, waited, _count = (thread_folder / "schedstat").read_text("ascii").split()
        return int(waited)
    return 0


def read_status(pid: int) -> dict[str, str]:
    """Return the fields of ``/proc/PID/status``; empty when the process is gone."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return {}


def resident_bytes(pid: int, *kinds: str) -> int:
    """Return the sum of some memory fields of ``/proc/PID/status``, such as ``RssAnon``."""
    status = read_status(pid)
    return sum(int(status.get(kind, "0").split()[0]) for kind in kinds) * 1024


def reset_peak_resident(pid: int) -> bool:
    """Set ``VmHWM`` of a process to its present memory; return whether that is permitted."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5", "ascii")
        return True
    return False


def is_memory_readable(pid: int) -> bool:
    """Whether this machine lets us read a child's memory, as long as the child allows it."""
    with suppress(OSError):
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
        return True
    return False


def read_memory(pid: int, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return pieces of a child's memory, each given by address and size.

    A piece that cannot be read completely is empty.

    Raises:
        UnsupportedHost: This machine does not let a parent read its child's memory.
    """
    try:
        file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    except PermissionError as error:
        raise UnsupportedHost(
            "this machine does not let a process read its child's memory",
            "set kernel.yama.ptrace_scope to 1, or allow ptrace",
        ) from error
    except OSError:
        return [b""] * len(pieces)
    try:
        return [_read_piece(file, address, size) for address, size in pieces]
    finally:
        os.close(file)


def is_mapped_from_file(pid: int, address: int, size: int) -> bool:
    """Return whether any page of a piece of memory is one of a file, or of shared memory.

    Such a page may be in several places, be filled when it is read, or be another's to change.
    """
    with suppress(OSError, ValueError), Path(f"/proc/{pid}/maps").open("rb") as maps:
        for line in maps:
            borders, _access, _offset, _device, file = line.split(maxsplit=5)[:5]
            start, _, end = borders.partition(b"-")
            if int(start, 16) >= address + size:
                break
            if int(end, 16) > address and int(file):
                return True
    return False


def _read_piece(file: int, address: int, size: int) -> bytes:
    data = bytearray(size)
    done = 0
    with suppress(OSError, OverflowError):
        while done < size:
            done += os.preadv(file, [memoryview(data)[done:]], address + done)
    return bytes(data) if done == size else b""


def _read_process_table(*, ended: bool = False) -> dict[int, tuple[int, int]]:
    """Return (parent pid, session id) of every process, by pid; with ``ended``, zombies too.

    A process chooses its own name, which need not be text.
    """
    table = {}
    with os.scandir("/proc") as entries:
        names = [entry.name for entry in entries if entry.name.isdecimal()]
    for name in names:
        with suppress(OSError, ValueError, IndexError):
            state, parent, _, session = _read_stat(name).rpartition(b")")[2].split(None, 4)[:4]
            if ended or state not in _ENDED_STATES:
                table[int(name)] = (int(parent), int(session))
    return table


def _read_stat(name: str) -> bytes:
    """Return ``/proc/PID/stat``, in a third of the time that ``Path.read_bytes`` takes."""
    file = os.open(f"/proc/{name}/stat", os.O_RDONLY)
    try:
        return os.read(file, _STAT_BYTES)
    finally:
        os.close(file)


class ProcessPauser:
    """Stops and resumes one process.

    Attributes:
        is_stopped: Whether SIGSTOP was the last signal sent.
        late_ns: CPU time of its threads from the last SIGSTOP until ``pause`` saw them stopped.
            What runs in user mode stops within microseconds, or when it would run again; a system
            call goes on until it ends, and may copy for as long as it likes.
    """

    def __init__(self, process: subprocess.Popen[bytes], *, stops_each_thread: bool = True) -> None:
        """Stop nothing yet.

        Args:
            process: A child of this process.
            stops_each_thread: Send SIGSTOP to its threads as well, each of which takes 1 us.
        """
        self._process, self._stops_each_thread = process, stops_each_thread
        self.is_stopped = False
        self.late_ns = 0
        self._affinities: dict[int, frozenset[int]] = {}
        self._judge_affinities: dict[int, frozenset[int]] = {}
        self._cpu_time_ns = 0

    def send_stop(self) -> None:
        """Send SIGSTOP without waiting.

        Threads that run stop at once, those on the run queue when they are scheduled; that wait is
        not time of the candidate's work.
        """
        if not self.is_stopped:
            self.is_stopped = True
            if self._stops_each_thread:
                _stop_threads(self._process.pid, self._affinities)
            self._process.send_signal(signal.SIGSTOP)
            self._cpu_time_ns = cpu_time_ns(self._process.pid)

    def pause(self) -> None:
        """Stop it and return when all its threads are off the CPU, or it has ended (unreaped).

        Also restores the cores of the judge's own threads, which it may have changed.
        """
        self.send_stop()
        end = time.monotonic() + _STOP_TIMEOUT_S
        events = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
        while os.waitid(os.P_PID, self._process.pid, events) is None and time.monotonic() < end:
            time.sleep(_STOP_POLL_S)
        wait_off_cpu(self._process.pid)
        restore_affinities(self._judge_affinities)
        self._affinities = read_affinities(self._process.pid)
        signalled_ns, self._cpu_time_ns = self._cpu_time_ns, cpu_time_ns(self._process.pid)
        self.late_ns = max(0, self._cpu_time_ns - signalled_ns)

    def activity_while_stopped(self) -> str | None:
        """Report how it ran since ``pause``, as a SIGCONT from a timer can cause; None if not.

        Also restores the CPU affinities of its threads, which a rival may have changed.
        """
        restore_affinities(self._affinities)
        self._judge_affinities = read_affinities(os.getpid())
        state = read_status(self._process.pid).get("State", "T")
        if state[0] not in _STOPPED_STATES:
            return f"its state was {state}"
        ran_ns = cpu_time_ns(self._process.pid) - self._cpu_time_ns
        return f"it ran {ran_ns / 1e6:.2g} ms" if ran_ns > _STOP_SLACK_NS else None

    def resume(self) -> None:
        """Send SIGCONT."""
        self.is_stopped = False
        self._process.send_signal(signal.SIGCONT)


def wait_for_start(folder: Path, runner_pids: Iterable[int] = ()) -> None:
    """Write the file ``ready``, and wait for a byte or the end of standard input.

    Args:
        folder: Of the job.
        runner_pids: Of runners; they and this process get the cores back that they had before.
    """
    pids = (os.getpid(), *runner_pids)
    cores = {pid: read_affinities(pid) for pid in pids}
    (folder / "ready").touch()
    os.read(_STDIN, 1)
    for pid in pids:
        first = cores[pid].get(pid, frozenset())
        threads = {thread: cores[pid].get(thread, first) for thread in read_affinities(pid)}
        restore_affinities({thread: mask for thread, mask in threads.items() if mask})
