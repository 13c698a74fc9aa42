"""Binds a C function of a shared library to shared memory on a CPU, and calls it; without torch.

Importing torch takes 1.5 s of CPU time, more than most checks of such a function take.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from kernelkb.measure.worker.shared.failures import KernelError
from kernelkb.measure.worker.shared.messages.runner_commands import (
    BareCommand,
    BatchAnswer,
    BindCommand,
    CallAnswer,
    CallCommand,
    CallSlotsCommand,
    EmptyAnswer,
    Handler,
    OpenCommand,
    RunBatchCommand,
)
from kernelkb.measure.worker.shared.messages.specs import CEntryCode

_M_PERTURB = -6
"""glibc, mallopt(3): new memory is filled with the complement of a byte, freed memory with it."""
_FILL_BYTE = 0x01
"""New memory holds 0xFE: as float32 -1.7e38, as int32 -16843010."""


class OwnTimes(NamedTuple):
    """Nanoseconds of some calls."""

    runner_ns: int
    wait_ns: int
    """Of these, while the thread was ready to run and others had its core."""


class OwnClock:
    """Of the thread that makes it, and makes the calls."""

    def __init__(self) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._waited_ns = self._start_ns = 0

    def start(self) -> None:
        """Begin."""
        self._waited_ns, self._start_ns = self._read_wait_ns(), time.perf_counter_ns()

    def stop(self) -> OwnTimes:
        """Return what passed since the start."""
        passed_ns = time.perf_counter_ns() - self._start_ns
        return OwnTimes(passed_ns, self._read_wait_ns() - self._waited_ns)

    def _read_wait_ns(self) -> int:
        with suppress(OSError, ValueError, IndexError):
            if self._file is not None:
                return int(os.pread(self._file, 64, 0).split()[1])
        return 0


class LibraryRunner:
    """Calls one function on the slots of shared memory.

    Its arguments: pointers to inputs and outputs, numbers, axes (int64), a null stream.

    Attributes:
        handlers: By command.
    """

    def __init__(self, code: CEntryCode) -> None:
        self._code = code
        self._clock = OwnClock()
        self._function: Callable[..., int] | None = None
        self._calls: list[Callable[[], int]] = []
        self._map: mmap.mmap | None = None
        self._descriptor = -1
        self.handlers: dict[str, Handler] = {
            "ready": self._handle_ready,
            "load": self._handle_load,
            "open": self._handle_open,
            "close": self._handle_close,
            "bind": self._handle_bind,
            "call": self._handle_call,
            "call-slots": self._handle_call_slots,
            "synchronize": self._handle_ready,
            "run-batch": self._handle_run_batch,
            "release": self._handle_release,
        }

    def _handle_ready(self, _command: BareCommand, _files: list[int]) -> EmptyAnswer:
        return {}

    def _handle_load(self, _command: BareCommand, _files: list[int]) -> EmptyAnswer:
        self._function = load_c_function(self._code)
        return {}

    def _handle_open(self, command: OpenCommand, files: list[int]) -> EmptyAnswer:
        self._unmap()
        self._descriptor = files[0]
        # MAP_POPULATE: else the first call on each slot would be timed with its page faults.
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        self._map = mmap.mmap(self._descriptor, command["bytes"], flags=flags)
        return {}

    def _handle_close(self, _command: BareCommand, _files: list[int]) -> EmptyAnswer:
        self._unmap()
        return {}

    def _unmap(self) -> None:
        self._calls = []
        if self._map is not None:
            self._map.close()
            os.close(self._descriptor)
            self._map = None

    def _handle_bind(self, command: BindCommand, _files: list[int]) -> EmptyAnswer:
        """Bind the function to each slot's arrays."""
        function = self._function
        if function is None or self._map is None:
            raise RuntimeError("bind before load and open")
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._calls = []
        for row in command["offsets"]:
            arguments = [
                ctypes.c_void_p(start + offset if math.prod(spec["shape"]) else None)
                for offset, spec in zip(row, command["specs"], strict=True)
            ]
            self._calls.append(_bind(function, arguments, command))
        return {}

    def _handle_call(self, command: CallCommand, _files: list[int]) -> CallAnswer:
        with filled_heap(is_filled=command["fills_memory"]):
            self._call_slots([command["slot"]])
        return {"returned": False}

    def _handle_release(self, _command: BareCommand, _files: list[int]) -> EmptyAnswer:
        trim_heap()
        return {}

    def _call_slots(self, slots: list[int]) -> None:
        for slot in slots:
            if code := self._calls[slot]():
                raise KernelError(f"the entry point returned {code}")

    def _handle_call_slots(self, command: CallSlotsCommand, _files: list[int]) -> EmptyAnswer:
        self._call_slots(command["slots"])
        return {}

    def _handle_run_batch(self, command: RunBatchCommand, _files: list[int]) -> BatchAnswer:
        if "graph_id" in command:
            raise RuntimeError("there are no CUDA graphs on a CPU")
        self._clock.start()
        self._call_slots(command["slots"])
        times = self._clock.stop()
        return {
            "runner_ns": times.runner_ns,
            "wait_ns": times.wait_ns,
            "copy_ns": 0,
            "shares_memory": False,
        }


def load_c_function(code: CEntryCode) -> Callable[..., int]:
    """Return the entry point of a shared library.

    Raises:
        OSError: The library cannot be loaded.
        AttributeError: It has no such function.
    """
    function = getattr(ctypes.CDLL(code["library"]), code["entry"])
    function.restype = ctypes.c_int
    loaded: Callable[..., int] = function
    return loaded


def _bind(
    function: Callable[..., int], pointers: list[ctypes.c_void_p], command: BindCommand
) -> Callable[[], int]:
    input_count = command["input_count"]
    inputs: list[object] = list(pointers[:input_count])
    for position, value in command["scalars"]:
        inputs.insert(position, to_c_number(value))
    axes = [ctypes.c_int64(size) for size in command["axes"]]
    arguments = (*inputs, *pointers[input_count:], *axes, ctypes.c_void_p(None))
    return lambda: function(*arguments)


def to_c_number(value: float | int) -> ctypes.c_double | ctypes.c_int64:
    """Return a scalar argument as C passes it: a double, or an int64."""
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)


def trim_heap() -> None:
    """Return all free pages of the heap to the system, where the C library can (glibc)."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def filled_heap(*, is_filled: bool) -> Iterator[None]:
    """Have new memory filled in the block, if asked and the C library can (glibc).

    The system's is zero: a candidate that adds to its scratch memory, and does not clear it, is
    right only as long as that is so.
    """
    if not is_filled:
        yield
        return
    _set_fill_byte(_FILL_BYTE)
    try:
        yield
    finally:
        _set_fill_byte(0)


def _set_fill_byte(byte: int) -> None:
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_PERTURB, byte)
