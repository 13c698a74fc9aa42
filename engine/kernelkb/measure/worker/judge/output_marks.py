"""Reads a few elements of the outputs of every timed call, at positions that no runner knows.

Reading them costs nearly nothing, so no call goes unseen. They prove nothing by themselves: a call
whose elements look as if it had not been computed is compared with the reference.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, byte_view, poison
from kernelkb.measure.worker.judge.inputs.memory_plan import split_flat
from kernelkb.measure.worker.judge.returned_outputs import ReturnedArrays
from kernelkb.measure.worker.shared.memory import view_device_memory
from kernelkb.measure.worker.shared.messages.specs import OutputSpec

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
