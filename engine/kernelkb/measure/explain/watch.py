"""Watches a program until it ends, crashes or stands still, and looks where it is.

Its standard input is empty. GPU core dumps are written where the driver finds an exception; a
process that stands still is looked at by cuda-gdb, or dumped where attaching is not allowed.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from kernelkb.errors import EnvironmentGapError
from kernelkb.measure.explain.collectives import ask_collectives, make_flight_env
from kernelkb.measure.explain.debugger import (
    Asks,
    attach,
    open_core,
    open_debugger,
    read_host_frames,
    read_kernels,
)
from kernelkb.measure.explain.stalls import describe_kernels
from kernelkb.measure.process.subprocesses import SupervisedProgram, start_supervised
from kernelkb.measure.profile.observe import write_observer
from kernelkb.progress import report_progress, sleep_cancellable

_STACK_SIGNAL = signal.SIGRTMIN + 10
"""On which Python writes where its threads are; few programs use it."""
_POLL_S, _BETWEEN_S = 0.05, 5.0
"""Between the two looks that a program has to be alike in to stand still; a kernel of 5 s is rare.
"""
_BUSY_SHARE = 0.3
"""Of a core; of less, a host waits."""
_MAX_STACK_BYTES = 2**20
_STOPPING_S = 0.1
_STACK_S, _DUMP_S = 0.3, 30.0
"""A dump of 270,000 threads takes 6 s."""
_TICKS = os.sysconf("SC_CLK_TCK")
_MAX_PROCESSES = 8
_MAX_FRAMES = 4
_DUMPS = {
    "CUDA_COREDUMP_FILE": "{folder}/core.%p",
    "CUDA_COREDUMP_PIPE": "{folder}/pipe.%p",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1",
    "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
    "CUDA_COREDUMP_GENERATION_FLAGS": (
        "skip_global_memory,skip_local_memory,skip_constbank_memory"
    ),
}
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (\S+)', re.MULTILINE)
_THREAD_HEAD = re.compile(r"^(?=(?:Current thread|Thread) 0x)", re.MULTILINE)
_OWN_CODE = re.compile(r"^(?!.*(?:/lib/python\d|/site-packages/|/dist-packages/|<frozen))")
_DRIVER = re.compile(r"^(?:__|_?cu[A-Z]\w*_|\?\?|pthread_|epoll_|poll$|clock_)")

PYTHON_IS = "Python is at "
"""How a line on the host begins, behind a rank."""

Outcome = Literal["ended", "failed", "crashed", "hangs", "out-of-time"]


class Watched(NamedTuple):
    """How a program went."""

    outcome: Outcome
    status: int | None
    """Its exit status, negative by a signal; None where it was ended from here."""
    seconds: float
    lines: tuple[str, ...]
    """Where it is, or what the GPU's exception was."""
    notes: tuple[str, ...] = ()
    """What could not be learned, and why."""


class Look(NamedTuple):
    """Where the processes of a program are."""

    launches: frozenset[tuple[int, int, int]]
    """Process, device and number of each launch that is on a GPU."""
    stacks: tuple[str, ...]
    """Where Python is, of each process that says so."""
    lines: tuple[str, ...]
    notes: tuple[str, ...]
    refused: tuple[int, ...] = ()
    """Processes on a GPU that cuda-gdb may not attach to."""


class ProcessActivity(NamedTuple):
    """What the processes of a program did until now."""

    cpu_s: float
    switches: int
    """How often their main threads waited and went on."""
    io_bytes: int
    """What they read and wrote."""


class ThreadState(NamedTuple):
    """Where one thread of a stopped process is."""

    call: int | None
    """The number of the system call that it waits in; None: it computes."""
    address: int
    """Of the instruction that it is at."""


class MappedPart(NamedTuple):
    """A part of a file that a process has in its memory, as ``/proc/PID/maps`` tells it."""

    begin: int
    end: int
    offset: int
    """In the file, bytes."""
    file: str


def make_env(folder: Path) -> dict[str, str]:
    """Return variables under which a program can be looked at.

    Args:
        folder: A scratch folder, for dumps and stacks.
    """
    observer = write_observer(folder, {"stack_signal": int(_STACK_SIGNAL)})
    if has_own_dumps():
        return observer
    own = {name: text.format(folder=folder) for name, text in _DUMPS.items()}
    return {**own, **make_flight_env(folder), **observer}


def has_own_dumps() -> bool:
    """Return whether the user has set how the driver dumps."""
    return any(name in os.environ for name in _DUMPS)


def watch_program(
    words: Sequence[str],
    folder: Path,
    *,
    after_s: float,
    limit_s: float,
    log: Path | None = None,
    to_stderr: bool = False,
    env: Mapping[str, str] | None = None,
) -> Watched:
    """Run a program; look at it when it does not end.

    Args:
        words: Program and arguments; no shell is involved.
        folder: A scratch folder, the one of ``env``.
        after_s: It is looked at every so many seconds; when it stands still it is ended.
        limit_s: It is ended after so long in any case.
        log: File that receives what it prints; None: it goes where this process prints.
        to_stderr: Without a log: its standard output goes to standard error, too.
        env: Its variables; None: those of ``make_env``.

    Raises:
        OperationCancelled: The event given to ``cancel_on`` was set.
    """
    started = looked = time.monotonic()
    variables = make_env(folder) if env is None else env
    with start_supervised(words, log=log, env=variables, to_stderr=to_stderr) as program:
        while not program.has_ended():
            sleep_cancellable(_POLL_S)
            now, look = time.monotonic(), None
            if now - looked > after_s:
                look = find_standstill(program.process, folder, min(after_s, _BETWEEN_S))
                looked = time.monotonic()
            if look or now - started > limit_s:
                outcome: Outcome = "hangs" if look else "out-of-time"
                lines, notes = _add_dumps(look or look_at(program.process, folder), folder)
                seconds = time.monotonic() - started
                return Watched(outcome, None, seconds, tuple(lines), tuple(notes))
        return _describe_end(program, folder, time.monotonic() - started)


def _describe_end(program: SupervisedProgram, folder: Path, seconds: float) -> Watched:
    status = program.finish(0).returncode
    cores = sorted(path for path in folder.glob("core.*") if _is_regular(path))
    if not cores:
        stacks = read_last_stacks(folder)
        return Watched("failed" if status else "ended", status, seconds, tuple(stacks))
    lines, notes = read_cores(cores)
    return Watched("crashed", status, seconds, tuple(lines), tuple(notes))


def read_cores(cores: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Return what GPU core dumps say, and why they cannot be read."""
    lines, notes = [], []
    for core in cores[:_MAX_PROCESSES]:
        try:
            with open_debugger() as debugger:
                fault = open_core(debugger, str(core))
                if fault is None:
                    lines += describe_kernels(debugger, read_kernels(debugger))
                    continue
        except EnvironmentGapError as error:
            notes.append(str(error))
            break
        where = f" in {fault.function}" if fault.function else ""
        line = f" at {fault.line}" if fault.line else ""
        thread, block = (str(own).replace(" ", "") for own in (fault.thread, fault.block))
        lines.append(f"CUDA exception: {fault.kind}{where}{line}, thread {thread} in block {block}")
    return lines, notes


def find_standstill(process: int, folder: Path, between_s: float = _BETWEEN_S) -> Look | None:
    """Look at a program twice; return the second look where it stands still, None where it goes on.

    It stands where one launch is on a GPU in both looks; and, without any launch, where Python is
    at one place, and meanwhile no process computed, read, wrote or ended a wait.
    Nothing is said of a program that waits for one that cannot be looked into.

    Args:
        process: Its id.
        folder: As of ``look_at``.
        between_s: Time between the looks.
    """
    report_progress("it has not ended: looking where it is", "notice")
    before = look_at(process, folder, briefly=True)
    sleep_cancellable(_STACK_S)  # it was woken by being looked at
    begin = read_activity(process)
    sleep_cancellable(between_s)
    end = read_activity(process)
    look = look_at(process, folder)
    if before.launches or look.launches:
        return look if before.launches & look.launches else None
    is_idle = (
        end.cpu_s - begin.cpu_s < _BUSY_SHARE * between_s
        and end.switches == begin.switches
        and end.io_bytes == begin.io_bytes
    )
    is_alike = bool(look.stacks) and before.stacks == look.stacks
    return look if is_idle and is_alike and _sees_all(process, folder) else None


def _sees_all(process: int, folder: Path) -> bool:
    """Return whether each process that waits for no other one of the program was looked at."""
    family = list_family(process)
    last = _find_ranks(family) or [one for one in family if len(list_family(one)) == 1]
    return set(last) <= set(find_processes(process, folder))


def look_at(process: int, folder: Path, *, briefly: bool = False) -> Look:
    """Return where a process and those that it started are; each goes on afterwards.

    Args:
        process: Its id.
        folder: Where they may have written that they can be asked for stacks.
        briefly: Ask for the launches and the stacks of Python only.
    """
    launches: set[tuple[int, int, int]] = set()
    stacks, lines, notes, refused = [], [], [], []
    processes = find_processes(process, folder)
    for one in processes[:_MAX_PROCESSES]:
        name = _name_process(one, len(processes))
        if _uses_gpu(one):
            seen = _look_at_gpu(one, briefly=briefly, with_host=not _tells_stacks(one, folder))
            launches |= {(one, *launch) for launch in seen.launches}
            lines += [f"{name}{line}" for line in seen.lines]
            notes += [f"{name}{note}" for note in seen.notes]
            refused += [one] if seen.is_refused else []
        if stack := read_stack(one, folder):
            stacks.append(f"{name}{PYTHON_IS}{stack}")
    if len(processes) > _MAX_PROCESSES:
        notes.append(f"{len(processes) - _MAX_PROCESSES} more processes were not looked at")
    calls = [] if briefly or len(processes) < 2 else ask_collectives(folder)
    all_lines, told = (*calls, *lines, *stacks), tuple(dict.fromkeys(notes))
    return Look(frozenset(launches), tuple(stacks), all_lines, told, tuple(refused))


class _GpuLook(NamedTuple):
    launches: tuple[tuple[int, int], ...] = ()
    """Device and number."""
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_refused: bool = False


def _look_at_gpu(process: int, *, briefly: bool, with_host: bool) -> _GpuLook:
    try:
        with open_debugger(_read_variable(process, "TMPDIR")) as debugger:
            refused = attach(debugger, process)
            if refused is not None:
                note = f"cuda-gdb may not attach to process {process} ({refused}); root may"
                return _GpuLook(notes=(note,), is_refused=True)
            kernels = read_kernels(debugger)
            launches = tuple((kernel.device, kernel.launch) for kernel in kernels)
            if briefly:
                return _GpuLook(launches)
            if kernels:
                return _GpuLook(launches, tuple(describe_kernels(debugger, kernels)))
            return _GpuLook(lines=(_describe_host(debugger, with_host=with_host),))
    except EnvironmentGapError as error:
        return _GpuLook(notes=(str(error),))


def _describe_host(debugger: Asks, *, with_host: bool) -> str:
    told = read_host_frames(debugger) if with_host else []
    frames = [own for own in told if not _DRIVER.match(own)][:_MAX_FRAMES]
    inside = f"; the host is in {', called by '.join(frames)}" if frames else ""
    return f"no kernel is on the GPU{inside}"


def _add_dumps(look: Look, folder: Path) -> tuple[list[str], list[str]]:
    """Return a look's lines and notes, with core dumps of processes that refused to be looked at.

    A dump ends its process: only one that stands still, or is to be ended, is dumped.
    """
    lines, notes = list(look.lines), list(look.notes)
    for process in look.refused:
        core = _dump(process, folder)
        if core is not None:
            found, gaps = read_cores([core])
            lines, notes = [*found, *lines], [*notes, *gaps]
    return lines, notes


def _dump(process: int, folder: Path) -> Path | None:
    """Have the driver write a core dump of the GPU; None where it does not."""
    core = folder / f"core.{process}"
    try:
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW
        descriptor = os.open(folder / f"pipe.{process}", flags)
    except OSError:
        return None
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return None
        os.write(descriptor, b"\n")
    finally:
        os.close(descriptor)
    deadline = time.monotonic() + _DUMP_S
    while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
        sleep_cancellable(_POLL_S)
    return core if _is_regular(core) else None


def find_processes(process: int, folder: Path) -> list[int]:
    """Return a process and its descendants that use a GPU or can be asked for stacks.

    Of a program whose launcher started ranks, only these.
    """
    family = list_family(process)
    found = [one for one in family if _tells_stacks(one, folder) or _uses_gpu(one)]
    ranks = _find_ranks(family)
    return [one for one in found if not ranks or one in ranks]


def list_family(process: int) -> dict[int, float]:
    """Return the seconds of CPU time of a process and of its descendants, by their ids."""
    known: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text(encoding="ascii", errors="replace")
            words = fields.rpartition(")")[2].split()
            known[int(entry.name)] = int(words[1]), (int(words[11]) + int(words[12])) / _TICKS
    family: dict[int, float] = {}
    waiting = [process]
    while waiting:
        one = waiting.pop(0)
        if one in known:
            family[one] = known[one][1]
        waiting += sorted(own for own, (parent, _) in known.items() if parent == one)
    return family


def read_activity(process: int) -> ProcessActivity:
    """Return what a process and its descendants did until now; of a launcher's, its ranks."""
    family = list_family(process)
    watched = _find_ranks(family) or family  # their launcher looks after them all the time
    switches = io_bytes = 0
    for one in watched:
        switches += sum(_read_numbers(f"/proc/{one}/status", ("voluntary_ctxt_switches",)))
        io_bytes += sum(_read_numbers(f"/proc/{one}/io", ("rchar", "wchar")))
    return ProcessActivity(sum(family[one] for one in watched), switches, io_bytes)


def take_sample(process: int) -> dict[int, ThreadState]:
    """Stop a process, read where its threads are, and let it go on.

    Raises:
        OSError: It has ended, or Linux does not tell.
    """
    os.kill(process, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + _STOPPING_S
        while True:  # each thread stops when it next leaves the kernel
            found = dict(_read_threads(process))
            if None not in found.values() or time.monotonic() > deadline:
                return {thread: state for thread, state in found.items() if state}
            time.sleep(_STOPPING_S / 100)
    finally:
        os.kill(process, signal.SIGCONT)


def _read_threads(process: int) -> Iterator[tuple[int, ThreadState | None]]:
    for entry in Path(f"/proc/{process}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # that thread has ended
            yield int(entry.name), parse_thread((entry / "syscall").read_text(encoding="ascii"))


def parse_thread(text: str) -> ThreadState | None:
    """Return where a thread is, of its ``/proc/PID/task/TID/syscall``; None while it runs."""
    words = text.split()
    if len(words) < 3:  # running
        return None
    number = int(words[0])
    return ThreadState(None if number < 0 else number, int(words[-1], 16))


def read_maps(process: int) -> list[MappedPart]:
    """Return the files of a process's memory.

    Raises:
        OSError: It has ended, or Linux does not tell.
    """
    return parse_maps(Path(f"/proc/{process}/maps").read_text("utf-8", "replace"))


def parse_maps(text: str) -> list[MappedPart]:
    """Return the files of a process's memory, of its ``/proc/PID/maps``."""
    parts = []
    for line in text.splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6:
            begin, _, end = words[0].partition("-")
            parts.append(MappedPart(int(begin, 16), int(end, 16), int(words[2], 16), words[5]))
    return parts


def find_part(parts: Sequence[MappedPart], address: int) -> MappedPart | None:
    """Return the part of a file that holds an address; None where it is in none."""
    return next((part for part in parts if part.begin <= address < part.end), None)


def _read_numbers(path: str, names: Sequence[str]) -> Iterator[int]:
    with suppress(OSError, ValueError):
        for line in Path(path).read_text(encoding="ascii", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name in names:
                yield int(value)


def _uses_gpu(process: int) -> bool:
    try:
        return "libcuda.so" in Path(f"/proc/{process}/maps").read_text("utf-8", "replace")
    except OSError:
        return False


def _find_ranks(family: Iterable[int]) -> dict[int, str]:
    """Return the rank of each process that a launcher gave one, which its own children inherit."""
    ranks = {one: rank for one in family if (rank := _read_rank(one)) is not None}
    return {one: rank for one, rank in ranks.items() if _read_parent(one) not in ranks}


def _read_rank(process: int) -> str | None:
    return _read_variable(process, "RANK")


def _read_variable(process: int, name: str) -> str | None:
    with suppress(OSError):
        for word in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
            own, _, value = word.partition(b"=")
            if own == name.encode():
                return value.decode("utf-8", "replace")
    return None


def _read_parent(process: int) -> int:
    return next(_read_numbers(f"/proc/{process}/status", ("PPid",)), 0)


def _name_process(process: int, count: int) -> str:
    """Return how a process is told from others; empty for the only one."""
    rank = _read_rank(process)
    if count < 2:
        return ""
    return f"process {process}: " if rank is None else f"rank {rank}: "


def _stack_file(process: int, folder: Path) -> Path:
    return folder / f"stack-{process}.txt"


def _tells_stacks(process: int, folder: Path) -> bool:
    """Return whether a process still writes its stack on our signal.

    One that was replaced by another program would die of it; one that closed its files would write
    into another.
    """
    file = str(_stack_file(process, folder))
    try:
        links = [str(entry.readlink()) for entry in Path(f"/proc/{process}/fd").iterdir()]
        caught = Path(f"/proc/{process}/status").read_text("ascii", "replace")
    except OSError:
        return False
    mask = re.search(r"^SigCgt:\s*([0-9a-f]+)", caught, re.MULTILINE)
    return file in links and mask is not None and bool(int(mask[1], 16) >> (_STACK_SIGNAL - 1) & 1)


def read_stack(process: int, folder: Path) -> str | None:
    """Return where the main thread of a Python process is; None where it does not say.

    The frames of the program's own files, the innermost first, after the call that they wait in.
    """
    file = _stack_file(process, folder)
    if not _tells_stacks(process, folder) or not _is_regular(file):
        return None
    begin = file.stat().st_size
    with suppress(OSError):
        os.kill(process, _STACK_SIGNAL)
    deadline = time.monotonic() + _STACK_S
    while file.stat().st_size == begin and time.monotonic() < deadline:
        time.sleep(_POLL_S / 5)
    time.sleep(_POLL_S)
    return _read_frames(_read_text(file, begin))


def read_last_stacks(folder: Path) -> list[str]:
    """Return where the Python processes of a program were when a signal ended them."""
    texts = [_read_text(file) for file in sorted(folder.glob("stack-*.txt"))]
    found = [_read_frames(text) for text in texts if "Fatal Python error" in text]
    return [f"Python was at {one}" for one in dict.fromkeys(found) if one]


def _is_regular(path: Path) -> bool:
    """Return whether a path is a file: a sandboxed program may have put anything there."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _read_text(file: Path, begin: int = 0) -> str:
    """Return the text of a regular file from a place on, at most 1 MB; empty of anything else."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        opened.seek(begin)
        return opened.read(_MAX_STACK_BYTES).decode("utf-8", "replace")


def _read_frames(text: str) -> str | None:
    """Return the frames of the thread that failed, or else of the main thread; None without.

    faulthandler writes the main thread last, and leaves threads out behind a hundred.
    """
    sections = _THREAD_HEAD.split(text)
    failed = [
        one for one in sections if one.startswith("Current") and "Fatal Python" in sections[0]
    ]
    if "\n..." in text and not failed:
        return None
    frames = [(one[1], int(one[2]), one[3]) for one in _FRAME.finditer((failed or sections)[-1])]
    if not frames and failed:
        frames = [(one[1], int(one[2]), one[3]) for one in _FRAME.finditer(sections[-1])]
    if not frames:
        return None
    own = [frame for frame in frames if _OWN_CODE.match(frame[0])] or frames
    words = [f"{file.rpartition('/')[2]}:{line} ({name})" for file, line, name in own]
    inner = "" if own[0] == frames[0] else f"{frames[0][2]}, called at "
    return inner + ", called at ".join(words[:_MAX_FRAMES])
