"""Reads the outputs of calls where they are: a runner's GPU memory, or the judge's own buffers.

The runner says where its code has returned them when it answers, and is stopped then. The judge
copies them from there after the clock has ended, so no copy is in the runner's time, and none has
to be taken off. What the runner says is not trusted: it can only choose which of its own memory is
compared. Memory that the judge cannot open is copied by the runner, in the candidate's time.

Of every timed call a few elements are read, at positions that no runner knows. That costs nearly
nothing, so no call goes unseen. They prove nothing by themselves: a call whose elements look as if
it had not been computed is compared with the reference.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, byte_view, poison
from kernelkb.measure.worker.judge.inputs.memory_plan import split_flat
from kernelkb.measure.worker.judge.runner_process import CANDIDATE, RunnerProcess
from kernelkb.measure.worker.shared.memory import (
    MalformedError,
    OpenedMemory,
    is_dense,
    view_device_memory,
)
from kernelkb.measure.worker.shared.messages.runner_commands import (
    MAX_RETURNED_NUMBERS,
    Answer,
    ExportCommand,
    RunBatchCommand,
)
from kernelkb.measure.worker.shared.messages.specs import ArraySpec, OutputSpec

_EXPORT_TIMEOUT_S = 60.0
_NUMBER_BYTES = 8
_MAX_OPENED = 30
"""Times that memory of new outputs is opened: code that allocates some for every call has its
outputs copied."""
_COPIED_NOTE = (
    "its outputs are in memory that no other process can open, or that is new in every call: "
    "to copy them is part of its time"
)


class UnknownMemoryError(Exception):
    """Outputs are in allocations that the judge has not opened.

    Attributes:
        addresses: One in each, of the runner's.
    """

    def __init__(self, addresses: list[int]) -> None:
        super().__init__("outputs are in memory that is not open yet")
        self.addresses = addresses


class ReturnedArrays(NamedTuple):
    """Where one output of each call of a batch is, in the order of the calls."""

    addresses: torch.Tensor
    """Of the judge's, (calls,) int64; 0: in the judge's own buffer."""
    strides: torch.Tensor
    """(calls, dimensions) int64, in elements."""


class ReturnedReader:
    """Finds the outputs that a runner's code returns on a GPU.

    Attributes:
        is_copied: Whether the runner has to copy them, as the judge cannot open their memory.
    """

    def __init__(self, runner: RunnerProcess, case: KernelCase) -> None:
        self._runner, self._case = runner, case
        self.restart()

    def restart(self) -> None:
        """Forget what was, before batches of another kind: a graph's outputs are always there."""
        self._by_graph: dict[int, object] = {}
        self._asked_count = 0
        self.is_copied = False

    @property
    def notes(self) -> list[str]:
        """What that costs the code, as a sentence."""
        return [_COPIED_NOTE] if self.is_copied else []

    def note_graph(self, graph_id: int, answer: Answer) -> None:
        """Remember where the calls of a captured graph leave their outputs."""
        self._by_graph[graph_id] = answer.get("returned")

    def locate_replayed(
        self, command: RunBatchCommand, slots: Sequence[int]
    ) -> list[ReturnedArrays]:
        """Return where a graph will leave its outputs. Raises like ``locate``."""
        if "graph_id" not in command or self.is_copied:
            return []
        return self._locate(self._by_graph.get(command["graph_id"]), slots)

    def make_finder(
        self, answer: Answer, slots: Sequence[int]
    ) -> Callable[[], list[ReturnedArrays]] | None:
        """Return what says where calls have left their outputs; None: in the judge's buffers."""
        returned = None if self.is_copied else answer.get("returned")
        return (lambda: self._locate(returned, slots)) if returned else None

    @property
    def _memory(self) -> OpenedMemory:
        """What is open of the runner's, whichever case it was for."""
        if self._runner.opened_memory is None:
            self._runner.opened_memory = OpenedMemory()
        return self._runner.opened_memory

    def _locate(self, returned: object, slots: Sequence[int]) -> list[ReturnedArrays]:
        if not returned:
            return []
        try:
            return locate(self._memory, returned, self._case.output_specs, len(slots))
        except MalformedError as error:
            self._runner.reject_answer(str(error))

    def open(self, addresses: list[int]) -> None:
        """Open the allocations at some addresses; ``is_copied`` where that cannot be done.

        Raises:
            RunnerDied: It lists what cannot be.
        """
        command: ExportCommand = {"command": "export", "addresses": addresses}
        answer = self._runner.ask(command, _EXPORT_TIMEOUT_S)
        self._runner.pause()
        self._asked_count += 1
        try:
            if self._asked_count <= _MAX_OPENED:
                self._memory.open(answer.get("allocations"))
                return
        except MalformedError as error:
            self._runner.reject_answer(str(error))
        except OSError:
            pass
        self.is_copied = True

    def charge_copies(
        self, judge_ns: float, runner_ns: float, copy_ns: float
    ) -> tuple[float, float, float]:
        """Return the times of a batch, where outputs were copied: in the candidate's own time.

        Args:
            judge_ns: Of a ``Batch``, like the others, as measured.
            runner_ns: Without copies.
            copy_ns: By the runner's clock: that of a rival is trusted.
        """
        if not self.is_copied:
            return judge_ns, runner_ns, copy_ns
        if self._runner.name == CANDIDATE:
            return judge_ns, runner_ns + copy_ns, 0.0
        return judge_ns - copy_ns, runner_ns, 0.0


def locate(
    memory: OpenedMemory, returned: object, specs: Sequence[ArraySpec], calls: int
) -> list[ReturnedArrays]:
    """Return where outputs are, one entry for each of ``specs``.

    Args:
        memory: Of the runner.
        returned: Of a ``BatchAnswer``: for each call and output the allocation's id (0: the
            output is in the judge's buffer), its address and strides.
        specs: Of the outputs.
        calls: Of the batch.

    Raises:
        MalformedError: It does not fit them, or is outside of the allocations.
        UnknownMemoryError: Some have to be opened first.
    """
    rows = _unpack(returned, calls, count_numbers(specs))
    _require_known(memory, rows, specs)
    arrays, column = [], 0
    for spec in specs:
        end = column + 2 + len(spec["shape"])
        ids, addresses = rows[:, column], rows[:, column + 1]
        strides = rows[:, column + 2 : end]
        arrays.append(_translate(memory, ids, addresses, strides, spec))
        column = end
    return arrays


def _require_known(memory: OpenedMemory, rows: torch.Tensor, specs: Sequence[ArraySpec]) -> None:
    unknown, column = dict[int, int](), 0
    for spec in specs:
        for number, address in rows[:, column : column + 2].tolist():
            if number and number not in memory.ranges:
                unknown[number] = address
        column += 2 + len(spec["shape"])
    if unknown:
        raise UnknownMemoryError(list(unknown.values()))


def _translate(
    memory: OpenedMemory,
    ids: torch.Tensor,
    addresses: torch.Tensor,
    strides: torch.Tensor,
    spec: ArraySpec,
) -> ReturnedArrays:
    shape, item_bytes = spec["shape"], _item_bytes(spec)
    if not all(is_dense(shape, row) for row in {*map(tuple, strides[ids != 0].tolist())}):
        raise MalformedError("it reported outputs whose elements overlap, or are apart")
    size = math.prod(shape) * item_bytes
    own_addresses = torch.zeros_like(addresses)
    for number in set(ids.tolist()) - {0}:
        start, own = memory.ranges[number]
        offsets = addresses - start
        is_inside = (offsets >= 0) & (offsets % item_bytes == 0) & (offsets + size <= len(own))
        if not bool((is_inside | (ids != number)).all()):
            raise MalformedError("it reported outputs outside of their memory")
        own_addresses = torch.where(ids == number, offsets + own.start, own_addresses)
    return ReturnedArrays(own_addresses, strides)


def count_numbers(specs: Sequence[ArraySpec]) -> int:
    """Return how many numbers say where the outputs of one call are."""
    return sum(2 + len(spec["shape"]) for spec in specs)


def max_calls(specs: Sequence[ArraySpec]) -> int:
    """Return of how many calls an answer can say where their outputs are."""
    return max(1, MAX_RETURNED_NUMBERS // count_numbers(specs))


def copy_array(arrays: ReturnedArrays, index: int, spec: ArraySpec) -> torch.Tensor:
    """Return a contiguous copy of an output, of the call with an index; it is where that says."""
    shape, strides = tuple(spec["shape"]), arrays.strides[index].tolist()
    memory = view_device_memory(int(arrays.addresses[index]), math.prod(shape) * _item_bytes(spec))
    view = memory.view(getattr(torch, spec["dtype"])).as_strided(shape, strides)
    return torch.empty(shape, dtype=view.dtype, device=view.device).copy_(view)


def _unpack(returned: object, calls: int, numbers: int) -> torch.Tensor:
    """Return the numbers of each call: (calls, numbers) int64."""
    try:
        data = bytearray.fromhex(returned) if isinstance(returned, str) else b""
    except ValueError as error:
        raise MalformedError("it reported no places of its outputs") from error
    if len(data) != calls * numbers * _NUMBER_BYTES:
        raise MalformedError("it reported no places of its outputs")
    return torch.frombuffer(data, dtype=torch.int64).view(calls, numbers)


def _item_bytes(spec: ArraySpec) -> int:
    dtype: torch.dtype = getattr(torch, spec["dtype"])
    return int(dtype.itemsize)


_MAX_POSITIONS = 16
"""Elements read of each output: the first, the last, and others at random."""

DrawSlots = Callable[[Sequence[int]], list[int]]
"""Takes the slots of a batch that has ended; returns those to compare with the reference."""
MemoryReader = Callable[[Sequence[tuple[int, int]]], list[bytes]]
"""Takes addresses and sizes in a runner's memory; returns the bytes, empty where unreadable."""


def draw_none(_slots: Sequence[int]) -> list[int]:
    """Have no outputs returned; of the type ``DrawSlots``."""
    return []


class OutputMark(NamedTuple):
    """What one call left at the positions that are read."""

    content: bytes
    """The elements of all outputs, one after the other."""
    is_unwritten: bool
    """Whether an element is as it was before the call."""
    is_late: bool = False
    """Whether an element changed after the batch had ended, as on a GPU that works on."""


class OutputMarker:
    """Reads the marks of calls on the slots of one case."""

    def __init__(self, case: KernelCase, offsets: list[list[int]], memory: torch.Tensor) -> None:
        """Draw the positions.

        Args:
            case: Its output arrays.
            offsets: In bytes: a row per slot, an entry per array, inputs first.
            memory: The judge's buffers: (n,) uint8, on the case's device.
        """
        self._memory = self._own_memory = memory
        self._selected = self._rows = torch.empty(0)
        self._outputs = [_Positions(spec) for spec in case.output_specs]
        input_count = len(case.input_specs)
        names = [spec["name"] for spec in case.input_specs]
        # Behind the outputs come the inputs whose values some of them start with.
        starts = [spec["starts_as"] for spec in case.output_specs if spec["starts_as"]]
        columns = list(range(input_count, input_count + len(self._outputs)))
        columns += [names.index(name) for name in starts]
        positions = [
            *self._outputs,
            *(output for output in self._outputs if output.starts_as),
        ]
        base = torch.tensor(offsets, dtype=torch.int64)[:, columns]
        self._host_index = torch.cat(
            [base[:, at : at + 1] + one.byte_offsets() for at, one in enumerate(positions)],
            dim=1,
        )
        self._index = self._host_index.to(memory.device)

    def expect_calls(self, slots: Sequence[int]) -> None:
        """Prepare ``take`` for a batch on some slots."""
        self._memory = self._own_memory
        self._selected = self._index[torch.tensor(slots, device=self._index.device)]

    def expect_returned(self, slots: Sequence[int], returned: Sequence[ReturnedArrays]) -> None:
        """Prepare ``take`` for a batch whose calls have returned their outputs, on a GPU.

        Args:
            slots: Of the batch.
            returned: Where each output is; nothing: in the judge's own buffers.
        """
        if not returned or not self._index.numel():
            return
        rows = self._host_index[torch.tensor(slots)] + self._own_memory.data_ptr()
        start = 0
        for output, arrays in zip(self._outputs, returned, strict=True):
            part = rows[:, start : start + output.size]
            own = output.list_addresses(arrays)
            part.copy_(torch.where(arrays.addresses[:, None] == 0, part, own))
            start += output.size
        first, last = int(rows.min()), int(rows.max())
        self._memory = view_device_memory(first, last - first + 1)
        self._selected = (rows - first).to(self._index.device)

    def take(self) -> None:
        """Read shared memory after the batch; on a GPU, start to read it and do not wait."""
        self._rows = self._memory[self._selected]

    def release(self) -> None:
        """Drop the shared memory; nothing can be read afterwards."""
        self._memory = self._own_memory = torch.empty(0, dtype=torch.uint8)

    def parse(
        self,
        addresses: Sequence[Sequence[int]] = (),
        read_memory: MemoryReader | None = None,
    ) -> list[OutputMark]:
        """Return the marks of what ``take`` read, one per slot.

        Args:
            addresses: Of each slot's outputs in a runner's memory, 0 for those in shared memory;
                empty: all are there.
            read_memory: Reads a runner's memory.
        """
        changed = (self._memory[self._selected] != self._rows).any(dim=1).tolist()
        return [
            self._parse_row(bytes(row), addresses[at] if addresses else (), read_memory)._replace(
                is_late=changed[at]
            )
            for at, row in enumerate(self._rows.tolist())
        ]

    @staticmethod
    def read_array(read_memory: MemoryReader, address: int, array: torch.Tensor) -> None:
        """Fill a contiguous array from an address of a runner, as far as that can be read."""
        for chunk in split_flat(byte_view(array)):
            (data,) = read_memory([(address, chunk.nbytes)])
            if not data:
                return
            chunk.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
            address += chunk.nbytes

    def _parse_row(
        self, row: bytes, addresses: Sequence[int], read_memory: MemoryReader | None
    ) -> OutputMark:
        contents, is_unwritten = [], False
        start = 0
        initial_start = sum(output.size for output in self._outputs)
        for at, output in enumerate(self._outputs):
            content = row[start : start + output.size]
            start += output.size
            if read_memory is not None and addresses and addresses[at]:
                content = output.read(addresses[at], read_memory)
            contents.append(content)
            if output.starts_as:
                initial = row[initial_start : initial_start + output.size]
                initial_start += output.size
                is_unwritten |= bool(content) and content == initial
            else:
                is_unwritten |= output.holds_poison(content)
        return OutputMark(b"".join(contents), is_unwritten)


class _Positions:
    """The elements to read of one output."""

    def __init__(self, spec: OutputSpec) -> None:
        dtype: torch.dtype = getattr(torch, spec["dtype"])
        self._item_size = dtype.itemsize
        sample = torch.empty(1, dtype=dtype)
        poison([sample])
        self._poison = bytes(byte_view(sample).tolist())
        self.starts_as = spec["starts_as"]
        count = math.prod(spec["shape"])
        inner = range(1, count - 1)
        drawn = random.SystemRandom().sample(inner, min(len(inner), _MAX_POSITIONS - 2))
        self._elements = sorted({0, count - 1, *drawn}) if count else []
        self.size = len(self._elements) * self._item_size
        places = torch.unravel_index(torch.tensor(self._elements), spec["shape"]) if count else ()
        self._coordinates = torch.zeros(len(spec["shape"]), len(self._elements), dtype=torch.int64)
        for dimension, place in enumerate(places):
            self._coordinates[dimension] = place

    def byte_offsets(self) -> torch.Tensor:
        """Return the offset of each byte to read: (1, size) int64."""
        starts = torch.tensor(self._elements, dtype=torch.int64).view(-1, 1) * self._item_size
        return (starts + torch.arange(self._item_size)).view(1, -1)

    def list_addresses(self, arrays: ReturnedArrays) -> torch.Tensor:
        """Return the address of each byte to read, of each call: (calls, size) int64."""
        starts = arrays.strides @ self._coordinates * self._item_size
        addresses = arrays.addresses[:, None, None] + starts[:, :, None]
        return (addresses + torch.arange(self._item_size)).view(len(arrays.addresses), self.size)

    def read(self, address: int, read_memory: MemoryReader) -> bytes:
        """Read the elements of an array in a runner's memory."""
        size = self._item_size
        return b"".join(read_memory([(address + at * size, size) for at in self._elements]))

    def holds_poison(self, content: bytes) -> bool:
        """Return whether an element is poison still."""
        if self._poison not in content:
            return False
        size = self._item_size
        return any(content[at : at + size] == self._poison for at in range(0, len(content), size))
