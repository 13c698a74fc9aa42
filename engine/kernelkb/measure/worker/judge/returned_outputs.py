"""Reads outputs that a runner's code has returned where they are: in the runner's GPU memory.

The runner says where they are when it answers, and is stopped then. The judge copies them from
there after the clock has ended, so no copy is in the runner's time, and none has to be taken off.
What the runner says is not trusted: it can only choose which of its own memory is compared. Memory
that the judge cannot open is copied by the runner, in the candidate's time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from kernelkb.measure.worker.judge.inputs.inputs import KernelCase
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
from kernelkb.measure.worker.shared.messages.specs import ArraySpec

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
    if not all(is_dense(shape, row) for row in strides[ids != 0].unique(dim=0).tolist()):
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
