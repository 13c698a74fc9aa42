"""Asks cuda-gdb where the threads of a GPU are: of a running process, or of a core dump.

A process is stopped while it is looked at, for a second or two, and goes on afterwards.
What cuda-gdb 13.0 prints was recorded on an H200; ``-lineinfo`` is enough for lines.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from kernelkb.errors import EnvironmentGapError
from kernelkb.measure.machine.host import find_cuda_tool
from kernelkb.progress import raise_if_cancelled

_ANSWER_S, _OPEN_S = 20.0, 60.0
"""Chosen: an answer takes 0.01 s, of 270,000 threads 0.3 s."""
_MAX_PLACES = 32
"""Program counters that are looked at more closely, some 10 ms each."""
_FEW_SMS = 0xFF
_MAX_SAID = 200
STEP = 16
"""Bytes of an instruction since Volta."""
_BEFORE, _BEHIND = 24, 24
"""Instructions shown before and behind a program counter."""
_SETTINGS = ("pagination off", "width 0", "confirm off", "auto-solib-add off")
"""Without the last, attaching to a process of torch takes 13 s instead of less than 1."""
_TOOLKIT = re.compile(r"/targets/[^/]+/include/|/cuda[^/]*/include/|/include/(?:crt|cuda|cccl)/")
"""Headers of the toolkit: the line that calls is told instead."""
_DIM = r"\((\d+),\s*(\d+),\s*(\d+)\)"
_KERNEL_ROW = re.compile(
    rf"^\*?\s+(\d+)\s+\S+\s+(\d+)\s+(\d+)\s+\w+\s+(0x[0-9a-f]+)\s+{_DIM}\s+{_DIM}\s+(.+?)\s*$",
    re.MULTILINE,
)
_BLOCK_ROW = re.compile(rf"^\*?\s*{_DIM}\s+{_DIM}\s+(\d+)\s+\w+", re.MULTILINE)
_KERNEL_HEAD = re.compile(r"^Kernel (\d+)\s*$")
_THREAD_ROW = re.compile(
    rf"^\*?\s*{_DIM}\s+{_DIM}\s+{_DIM}\s+{_DIM}\s+(\d+)\s+(0x[0-9a-f]+)(?:\s.*)?$"
)
_INSTRUCTION = re.compile(r"^(?:=>)?\s*(0x[0-9a-f]+)(?: <[^\n]*?>)?:\s*(\S.*)$", re.MULTILINE)
_LINE = re.compile(r'^Line (\d+) of "([^"]+)"')
_INLINED = re.compile(r"inlined from (\S+) at line (\d+) of ([^\s]+?)\.?(?=\s|$)")
_OFFSET = re.compile(
    r"^.+?(?: \+ (?P<offset>\d+))? in section \.text\.(?P<function>\S+) of (?P<image>\S+)",
    re.MULTILINE,
)
_VALUE = re.compile(r"= (0x[0-9a-f]+)\s*$", re.MULTILINE)
_WORD = re.compile(r":\s+(0x[0-9a-f]+)\s*$", re.MULTILINE)
_EXCEPTION = re.compile(r"^CUDA Exception: (.+?)\s*$", re.MULTILINE)
_TRIGGERED = re.compile(r"triggered at PC 0x[0-9a-f]+\s+(.*?)\s*\(([^()\s]+:\d+)\)")
_TRAPS = {
    "Assertion failed": "an assertion failed",
    "signal SIGTRAP": "__trap() or a breakpoint was reached",
}
_STOPPED_IN = re.compile(r"^#0\s+(?:0x[0-9a-f]+ in )?([^\n]{1,300}?)<<<", re.MULTILINE)
_BEFORE_PC = "($pc-16)"
"""Of the instruction that was executed."""
_FOCUS = re.compile(r"block \((\d+),(\d+),(\d+)\), thread \((\d+),(\d+),(\d+)\)")
_FUNCTION = re.compile(
    r"^#\d+\s+(?:0x[0-9a-f]+ in )?([A-Za-z_][\w:<>~ ]*?) ?\((?:[^\n]*)\)", re.MULTILINE
)

Dim = tuple[int, int, int]


class Asks(Protocol):
    """A debugger, or a recording of one."""

    def ask(self, command: str, limit_s: float | None = None) -> str:
        """Return what it prints for a command."""


class ThreadRange(NamedTuple):
    """Threads at one program counter, from a thread of a block to one of a later block."""

    first_block: int
    first_thread: int
    last_block: int
    last_thread: int
    """All counted along x first."""
    thread_count: int
    pc: int


class GpuKernel(NamedTuple):
    """A kernel that is on the GPU."""

    number: int
    """The debugger's own."""
    device: int
    launch: int
    """Grows with each launch of the process on that device."""
    name: str
    grid: Dim
    block: Dim
    resident: int
    """Blocks that are on the GPU now."""
    last_block: int
    """The last of them."""
    threads: tuple[ThreadRange, ...]
    fills_gpu: bool = False
    """Whether it is on every SM."""


class GpuInstruction(NamedTuple):
    """One machine instruction."""

    address: int
    text: str

    @property
    def operation(self) -> str:
        """Its name, without a predicate."""
        words = self.text.split()
        return next((word for word in words if not word.startswith("@")), "")


class PlaceLine(NamedTuple):
    """A line of source, and where the function of that line was called."""

    file: str
    line: int
    called_at: tuple[str, int] | None = None

    def describe(self) -> str:
        """Return ``k.cu:46``, or ``k.cu:24, called at k.cu:67``."""
        own = f"{_base(self.file)}:{self.line}"
        if self.called_at is None:
            return own
        caller = f"{_base(self.called_at[0])}:{self.called_at[1]}"
        return caller if is_of_toolkit(self.file) else f"{own}, called at {caller}"


class GpuPlace(NamedTuple):
    """What stands around a program counter, with the values of one thread that is there."""

    kernel: int
    pc: int
    function: str
    """Mangled; empty where it is not known."""
    begin: int
    """Its address."""
    image: str
    """A file with its code, as long as the debugger is there."""
    instructions: tuple[GpuInstruction, ...]
    at: int
    """Index of the next instruction."""

    def take(self, first: int, last: int) -> tuple[GpuInstruction, ...]:
        """Return instructions from ``first`` to ``last`` around the next one."""
        return self.instructions[max(0, self.at + first) : max(0, self.at + last + 1)]


class GpuFault(NamedTuple):
    """An exception that the GPU raised."""

    kind: str
    """In NVIDIA's words: ``Warp Misaligned Address``."""
    function: str
    line: str
    """``k.cu:18``; empty where none is known."""
    block: tuple[int, ...]
    thread: tuple[int, ...]


class Debugger:
    """A cuda-gdb that answers commands."""

    def __init__(self, program: str, folder: str | None = None) -> None:
        self._child = subprocess.Popen(
            [program, "-q", "-nx"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            env={**os.environ, "TMPDIR": folder} if folder else None,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._count = 0
        self.is_attached = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._child.stdout or ():
            self._lines.put(line)
        self._lines.put(None)

    def ask(self, command: str, limit_s: float | None = None) -> str:
        """Return what it prints for a command; what it printed, when it took longer or died."""
        self._count += 1
        mark = f"<<<{self._count}>>>"
        printed: list[str] = []
        with suppress(OSError, ValueError):  # it died of the command before
            if self._child.stdin is not None:
                self._child.stdin.write(f"{command}\necho {mark}\\n\n")
                self._child.stdin.flush()
        deadline = time.monotonic() + (limit_s or _ANSWER_S)
        while time.monotonic() < deadline:
            raise_if_cancelled()
            try:
                line = self._lines.get(timeout=0.2)
            except queue.Empty:
                continue
            if line is None:
                self._lines.put(None)
                break
            text, found, _ = line.replace("(cuda-gdb) ", "").partition(mark)
            printed.append(text)
            if found:
                break
        return "".join(printed)

    def close(self) -> None:
        """Let a process go on that was attached to, and end; also where the call was cancelled."""
        try:
            with suppress(OSError, ValueError, subprocess.TimeoutExpired):
                if self._child.stdin is not None:
                    self._child.stdin.write("detach\n" if self.is_attached else "")
                    self._child.stdin.close()  # it ends
                self._child.wait(_ANSWER_S)
        finally:
            self._child.kill()
            self._child.wait()
            self._reader.join(_ANSWER_S)
            if self._child.stdout is not None:
                self._child.stdout.close()


@contextmanager
def open_debugger(folder: str | None = None) -> Iterator[Debugger]:
    """Yield a cuda-gdb; it ends after the block.

    Args:
        folder: Where it and the driver of what it attaches to meet: that one's TMPDIR.

    Raises:
        EnvironmentGapError: There is none.
    """
    program = find_cuda_tool("cuda-gdb")
    if program is None:
        raise EnvironmentGapError(
            "cuda-gdb was not found, and it is what says where the threads are",
            "install the CUDA toolkit's cuda-gdb, or put it on PATH",
        )
    debugger = Debugger(program, folder)
    try:
        for setting in _SETTINGS:
            debugger.ask(f"set {setting}")
        yield debugger
    finally:
        debugger.close()


def attach(debugger: Debugger, process: int) -> str | None:
    """Stop a process and look at it; return why that is not allowed, None where it is.

    Args:
        debugger: A new one.
        process: Its id.
    """
    debugger.is_attached = True  # also where the call is cancelled
    printed = debugger.ask(f"attach {process}", _OPEN_S)
    for line in printed.splitlines():
        if "ptrace: " in line or "No such process" in line or "not permitted" in line:
            debugger.is_attached = False
            return line.strip()
    return None


def open_core(debugger: Asks, core: str) -> GpuFault | None:
    """Open a core dump of the GPU; return the exception that made it.

    Args:
        debugger: A new one.
        core: Path of the file.
    """
    printed = debugger.ask(f"target cudacore {core}", _OPEN_S)
    found = _EXCEPTION.search(printed)
    trap = next((words for mark, words in _TRAPS.items() if mark in printed), None)
    if found is None and trap is None:
        return None
    place, focus = _TRIGGERED.search(printed), _FOCUS.search(printed)
    numbers = tuple(map(int, focus.groups())) if focus else (0,) * 6
    function, line = (place[1], place[2]) if place else ("", "")
    if place is None:
        own = _STOPPED_IN.search(printed)
        function, at = own[1] if own else "", read_line(debugger, _BEFORE_PC)
        line = at.describe() if at else ""
    return GpuFault(found[1] if found else trap or "", function, line, numbers[:3], numbers[3:])


def read_kernels(debugger: Asks) -> list[GpuKernel]:
    """Return the kernels that are on the GPU, with the program counter of each thread.

    Raises:
        EnvironmentGapError: The debugger does not answer as it should.
    """
    begun = time.monotonic()
    table = debugger.ask("info cuda kernels")
    if "Invocation" not in table and "No CUDA kernels" not in table:
        said = next((line.strip() for line in table.splitlines() if line.strip()), "")
        if not said and time.monotonic() - begun >= _ANSWER_S:
            raise EnvironmentGapError(
                f"cuda-gdb did not tell within {_ANSWER_S:.0f} s what is on the GPU",
                "let other programs leave the GPU first: it stops all of its work to look",
            )
        raise EnvironmentGapError(
            f"cuda-gdb cannot tell what is on the GPU; it said: {said[:_MAX_SAID] or 'nothing'}",
            "see that its version fits the driver",
        )
    blocks = _split_by_kernel(debugger.ask("info cuda blocks"))
    threads = _split_by_kernel(debugger.ask("info cuda threads"))
    kernels = []
    for row in _KERNEL_ROW.finditer(table):
        number, device, launch = int(row[1]), int(row[2]), int(row[3])
        grid, block = _dim(row.groups()[4:7]), _dim(row.groups()[7:10])
        resident, last = _count_blocks(blocks.get(number, ()), grid)
        ranges = tuple(_read_ranges(threads.get(number, ()), grid, block))
        name = row[11].removesuffix("()")
        blocks_on = (grid, block, resident, last, ranges, _fills(int(row[4], 16)))
        kernels.append(GpuKernel(number, device, launch, name, *blocks_on))
    return kernels


def _fills(sms: int) -> bool:
    """Return whether a mask of SMs has no gap: few blocks are spread over every other one."""
    return sms > _FEW_SMS and not sms & (sms + 1)


def _split_by_kernel(table: str) -> dict[int, list[str]]:
    rows: dict[int, list[str]] = {}
    number = 0
    for line in table.splitlines():
        head = _KERNEL_HEAD.match(line)
        if head:
            number = int(head[1])
        else:
            rows.setdefault(number, []).append(line)
    return rows


def _dim(words: Sequence[str]) -> Dim:
    x, y, z = map(int, words)
    return x, y, z


def _linear(at: Dim, size: Dim) -> int:
    return at[0] + size[0] * (at[1] + size[1] * at[2])


def _count_blocks(rows: Sequence[str], grid: Dim) -> tuple[int, int]:
    count, last = 0, -1
    for line in rows:
        if row := _BLOCK_ROW.match(line):
            count += int(row[7])
            last = max(last, _linear(_dim(row.groups()[3:6]), grid))
    return count, last


def _read_ranges(rows: Sequence[str], grid: Dim, block: Dim) -> Iterator[ThreadRange]:
    for line in rows:
        if row := _THREAD_ROW.match(line):
            words = row.groups()
            first_block, last_block = (_linear(_dim(words[at : at + 3]), grid) for at in (0, 6))
            first, last = (_linear(_dim(words[at : at + 3]), block) for at in (3, 9))
            count, pc = int(words[12]), int(words[13], 16)
            yield ThreadRange(first_block, first, last_block, last, count, pc)


def look_at_places(debugger: Asks, kernels: Sequence[GpuKernel]) -> dict[tuple[int, int], GpuPlace]:
    """Return what stands at each program counter, by the kernel's number and the counter.

    Those with the fewest threads come first: few are on their way where many wait.
    """
    wanted: dict[tuple[int, int], tuple[GpuKernel, ThreadRange]] = {}
    for kernel in kernels:
        for one in sorted(kernel.threads, key=lambda own: own.thread_count):
            wanted.setdefault((kernel.number, one.pc), (kernel, one))
    return {
        key: _look(debugger, kernel, one)
        for key, (kernel, one) in list(wanted.items())[:_MAX_PLACES]
    }


def focus_on(debugger: Asks, kernel: GpuKernel, one: ThreadRange) -> None:
    """Make later questions ask about the first of some threads."""
    block, thread = _place(one.first_block, kernel.grid), _place(one.first_thread, kernel.block)
    debugger.ask(f"cuda kernel {kernel.number} block {block} thread {thread}")


def _look(debugger: Asks, kernel: GpuKernel, one: ThreadRange) -> GpuPlace:
    focus_on(debugger, kernel, one)
    symbol = _OFFSET.search(debugger.ask("info symbol $pc"))
    offset = int(symbol["offset"] or 0) if symbol else 0
    before = min(offset // STEP, _BEFORE)
    listed = debugger.ask(f"x/{before + _BEHIND}i $pc-{before * STEP}")
    found = [GpuInstruction(int(row[1], 16), row[2]) for row in _INSTRUCTION.finditer(listed)]
    at = next((n for n, own in enumerate(found) if own.address == one.pc), 0)
    function, image = (symbol["function"], symbol["image"]) if symbol else ("", "")
    where = (function, one.pc - offset, image)
    return GpuPlace(kernel.number, one.pc, *where, tuple(found), at)


def _place(linear: int, size: Dim) -> str:
    return f"{linear % size[0]},{linear // size[0] % size[1]},{linear // (size[0] * size[1])}"


def read_line(debugger: Asks, address: int | str) -> PlaceLine | None:
    """Return the line of an instruction; None where its kernel has no line table."""
    place = address if isinstance(address, str) else f"{address:#x}"
    printed = debugger.ask(f"info line *{place}")
    found = _LINE.match(printed.strip())
    if found is None:
        return None
    callers = [(one[3], int(one[2])) for one in _INLINED.finditer(printed)]
    return PlaceLine(found[2], int(found[1]), callers[-1] if callers else None)


def read_register(debugger: Asks, name: str) -> int | None:
    """Return a register of the thread in focus; ``RZ`` and ``URZ`` are zero."""
    if name in ("RZ", "URZ"):
        return 0
    found = _VALUE.search(debugger.ask(f"print/x ${name}"))
    return int(found[1], 16) if found else None


def read_shared_word(debugger: Asks, address: int) -> int | None:
    """Return 64 bits of the shared memory of the block in focus."""
    found = _WORD.search(debugger.ask(f"x/gx (@shared unsigned long long*){address:#x}"))
    return int(found[1], 16) if found else None


def read_host_frames(debugger: Asks) -> list[str]:
    """Return the functions that the process's first thread is in, the innermost first."""
    debugger.ask("sharedlibrary", _OPEN_S)
    printed = debugger.ask("thread apply 1 bt 24")
    return [found[1] for found in _FUNCTION.finditer(printed)]


def is_of_toolkit(file: str) -> bool:
    """Return whether a file is a header of the CUDA toolkit."""
    return _TOOLKIT.search(file) is not None


def _base(file: str) -> str:
    return file.rpartition("/")[2]
