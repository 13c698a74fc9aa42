"""Watches a program until it ends, crashes or stands still, and looks where it is.

Its standard input is empty. GPU core dumps are written where the driver finds an exception; a
process that stands still is looked at by cuda-gdb, or dumped where attaching is not allowed.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from kernelkb.errors import EnvironmentGapError
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
_STACK_S, _DUMP_S = 0.3, 30.0
"""A dump of 270,000 threads takes 6 s."""
_TICKS = os.sysconf("SC_CLK_TCK")
_MAX_PROCESSES = 8
_MAX_FRAMES = 4
_DUMPS = {
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1",
    "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
    "CUDA_COREDUMP_GENERATION_FLAGS": (
        "skip_global_memory,skip_local_memory,skip_constbank_memory"
    ),
}
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (\S+)', re.MULTILINE)
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

    launches: tuple[tuple[int, int], ...]
    """Process and number of each launch that is on a GPU."""
    lines: tuple[str, ...]
    notes: tuple[str, ...]
    is_dumped: bool = False
    """Whether a process was ended to look at it."""


def make_env(folder: Path) -> dict[str, str]:
    """Return variables under which a program can be looked at.

    Args:
        folder: A scratch folder, for dumps and stacks.
    """
    own = {
        "CUDA_COREDUMP_FILE": str(folder / "core.%p"),
        "CUDA_COREDUMP_PIPE": str(folder / "pipe.%p"),
    }
    observer = write_observer(folder, {"stack_signal": int(_STACK_SIGNAL)})
    return {**_DUMPS, **own, **observer}


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
        folder: A scratch folder.
        after_s: It is looked at every so many seconds; when it stands still it is ended.
        limit_s: It is ended after so long in any case.
        log: File that receives what it prints; None: it goes where this process prints.
        to_stderr: Without a log: its standard output goes to standard error, too.
        env: Variables besides those of ``make_env``.

    Raises:
        OperationCancelled: The event given to ``cancel_on`` was set.
    """
    started = looked = time.monotonic()
    both = {**make_env(folder), **(env or {})}
    with start_supervised(words, log=log, env=both, to_stderr=to_stderr) as program:
        while not program.has_ended():
            sleep_cancellable(_POLL_S)
            now = time.monotonic()
            if now - started > limit_s:
                look = look_at(program.process, folder)
                return Watched("out-of-time", None, now - started, look.lines, look.notes)
            if now - looked > after_s:
                stands, look = stands_still(program.process, folder, min(after_s, _BETWEEN_S))
                if stands:
                    seconds = time.monotonic() - started
                    return Watched("hangs", None, seconds, look.lines, look.notes)
                looked = time.monotonic()
        return _describe_end(program, folder, time.monotonic() - started)


def _describe_end(program: SupervisedProgram, folder: Path, seconds: float) -> Watched:
    status = program.finish(0).returncode
    cores = sorted(folder.glob("core.*"))
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
            notes.append(f"{error}; {error.cure}")
            break
        where = f" in {fault.function}" if fault.function else ""
        line = f" at {fault.line}" if fault.line else ""
        thread, block = (str(own).replace(" ", "") for own in (fault.thread, fault.block))
        lines.append(f"CUDA exception: {fault.kind}{where}{line}, thread {thread} in block {block}")
    return lines, notes


def stands_still(process: int, folder: Path, between_s: float) -> tuple[bool, Look]:
    """Return whether two looks at a program find it alike, and the second look.

    Alike: a launch is on the GPU in both, or none is, Python is at one line and computes nothing.
    """
    report_progress("it has not ended: looking where it is", "notice")
    before = look_at(process, folder, briefly=True)
    begun, cpu_s = time.monotonic(), _count_cpu_s(process)
    sleep_cancellable(between_s)
    is_busy = _count_cpu_s(process) - cpu_s > _BUSY_SHARE * (time.monotonic() - begun)
    look = look_at(process, folder)
    if look.is_dumped:
        return True, look
    if before.launches or look.launches:
        return bool(set(before.launches) & set(look.launches)), look
    hosts = [[one for one in own.lines if PYTHON_IS in one] for own in (before, look)]
    return bool(hosts[0]) and hosts[0] == hosts[1] and not is_busy, look


def look_at(process: int, folder: Path, *, briefly: bool = False) -> Look:
    """Return where a process and those that it started are.

    Args:
        process: Its id.
        folder: Where they may have written that they can be asked for stacks.
        briefly: Ask for the launches and the stacks of Python only.
    """
    launches: list[tuple[int, int]] = []
    lines: list[str] = []
    notes: list[str] = []
    processes = find_processes(process, folder)
    for one in processes[:_MAX_PROCESSES]:
        name = _name_process(one, len(processes))
        found, told, note = _look_at_gpu(one, folder, briefly=briefly)
        launches += [(one, launch) for launch in found]
        lines += [f"{name}{line}" for line in told]
        if stack := read_stack(one, folder):
            lines.append(f"{name}{PYTHON_IS}{stack}")
        if note:
            notes.append(f"{name}{note}")
    if len(processes) > _MAX_PROCESSES:
        notes.append(f"{len(processes) - _MAX_PROCESSES} more processes were not looked at")
    is_dumped = any(folder.glob("core.*"))
    return Look(tuple(launches), tuple(lines), tuple(dict.fromkeys(notes)), is_dumped)


def _look_at_gpu(
    process: int, folder: Path, *, briefly: bool
) -> tuple[list[int], list[str], str | None]:
    """Return the launches on the GPU, lines on them, and why that is not known."""
    if not _uses_gpu(process):
        return [], [], None
    try:
        with open_debugger() as debugger:
            refused = attach(debugger, process)
            if refused is None:
                with_host = not _stack_file(process, folder).exists()
                return (*_describe_gpu(debugger, briefly=briefly, with_host=with_host), None)
        if briefly:
            return [], [], None
        return _dump(process, folder, refused)
    except EnvironmentGapError as error:
        return [], [], f"{error}; {error.cure}"


def _describe_gpu(
    debugger: Asks, *, briefly: bool, with_host: bool = False
) -> tuple[list[int], list[str]]:
    kernels = read_kernels(debugger)
    launches = [kernel.launch for kernel in kernels]
    if briefly:
        return launches, []
    if kernels:
        return launches, describe_kernels(debugger, kernels)
    told = read_host_frames(debugger) if with_host else []
    frames = [own for own in told if not _DRIVER.match(own)][:_MAX_FRAMES]
    inside = f"; the host is in {', called by '.join(frames)}" if frames else ""
    return [], [f"no kernel is on the GPU{inside}"]


def _dump(process: int, folder: Path, refused: str) -> tuple[list[int], list[str], str | None]:
    """Have the driver write a core dump of the GPU; the process ends by it."""
    core, pipe = folder / f"core.{process}", folder / f"pipe.{process}"
    note = f"cuda-gdb may not attach ({refused})"
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return (
            [],
            [],
            f"{note}, and the driver gives no core dump: run it by kb explain, or as root",
        )
    os.write(descriptor, b"\n")
    os.close(descriptor)
    deadline = time.monotonic() + _DUMP_S
    while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
        sleep_cancellable(_POLL_S)
    if not core.exists():
        return [], [], f"{note}, and no core dump came within {_DUMP_S:g} s"
    with open_debugger() as debugger:
        open_core(debugger, str(core))
        return (*_describe_gpu(debugger, briefly=False), None)


def find_processes(process: int, folder: Path) -> list[int]:
    """Return a process and its descendants that use a GPU or can be asked for stacks."""
    family = _list_family(process)
    return [one for one in family if _stack_file(one, folder).exists() or _uses_gpu(one)]


def _list_family(process: int) -> dict[int, float]:
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


def _count_cpu_s(process: int) -> float:
    return sum(_list_family(process).values())


def _uses_gpu(process: int) -> bool:
    try:
        return "libcuda.so" in Path(f"/proc/{process}/maps").read_text("utf-8", "replace")
    except OSError:
        return False


def _name_process(process: int, count: int) -> str:
    """Return how a process is told from others; empty for the only one."""
    if count < 2:
        return ""
    with suppress(OSError):
        env = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        ranks = [word[5:].decode() for word in env if word.startswith(b"RANK=")]
        if ranks:
            return f"rank {ranks[0]}: "
    return f"process {process}: "


def _stack_file(process: int, folder: Path) -> Path:
    return folder / f"stack-{process}.txt"


def read_stack(process: int, folder: Path) -> str | None:
    """Return where the main thread of a Python process is; None where it does not say.

    The frames of the program's own files, the innermost first, after the call that they wait in.
    """
    file = _stack_file(process, folder)
    if not file.exists():
        return None
    begin = file.stat().st_size
    with suppress(OSError):
        os.kill(process, _STACK_SIGNAL)
    deadline = time.monotonic() + _STACK_S
    while file.stat().st_size == begin and time.monotonic() < deadline:
        time.sleep(_POLL_S / 5)
    time.sleep(_POLL_S)
    with file.open("rb") as opened:
        opened.seek(begin)
        return _read_frames(opened.read().decode("utf-8", "replace"))


def read_last_stacks(folder: Path) -> list[str]:
    """Return where the Python processes of a program were when a signal ended them."""
    texts = [file.read_text("utf-8", "replace") for file in sorted(folder.glob("stack-*.txt"))]
    found = [_read_frames(text) for text in texts if "Fatal Python error" in text]
    return [f"Python was at {one}" for one in dict.fromkeys(found) if one]


def _read_frames(text: str) -> str | None:
    """Return the frames of the main thread, which faulthandler writes last."""
    main = text.replace("Thread 0x", "\0").replace("Current thread 0x", "\0").split("\0")[-1]
    frames = [(one[1], int(one[2]), one[3]) for one in _FRAME.finditer(main)]
    if not frames:
        return None
    own = [frame for frame in frames if _OWN_CODE.match(frame[0])] or frames
    words = [f"{file.rpartition('/')[2]}:{line} ({name})" for file, line, name in own]
    inner = "" if own[0] == frames[0] else f"{frames[0][2]}, called at "
    return inner + ", called at ".join(words[:_MAX_FRAMES])
