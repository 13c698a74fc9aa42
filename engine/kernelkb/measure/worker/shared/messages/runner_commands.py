"""Commands of the judge to a runner process, and the runner's answers.

Each command travels with a random ``sequence`` number, which the answer repeats. The judge trusts
no answer: it reads them as ``Answer``, objects of any type, and checks each value that it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, final

from kernelkb.measure.worker.shared.messages.specs import ArraySpec, Code, Scalar, Target

MAX_MISSING_PARAMETERS = 8
"""Of a ``LoadAnswer``: an answer is one bounded packet."""
MAX_RETURNED_NUMBERS = 9000
"""Of the numbers in ``returned``, for the same reason; each takes 16 characters."""


class ServeJob(TypedDict):
    """job.json of a runner process."""

    mode: Literal["serve"]
    target: Target
    code: Code
    channel: int
    """File descriptor of its end of the socket pair."""
    adopts_orphans: bool
    """Orphans below it become its own children instead of the judge's: a rival may run compilers
    while a candidate is at work, to which the judge would attribute them."""


class BareCommand(TypedDict):
    """A command without arguments; the answer is empty.

    ``ready``: the sandbox is up and the device works; none of the candidate's code has run.
    ``load``: load the candidate's code. ``close``: unmap the shared memory. ``synchronize``: wait
    for the device. ``release``: return memory that only allocators keep to the system.
    """

    command: Literal["ready", "load", "close", "synchronize", "release"]


class OpenCommand(TypedDict):
    """Map the judge's shared memory; on a CPU its file descriptor travels with the message."""

    command: Literal["open"]
    bytes: int
    handle: str | None
    """CUDA IPC handle, hexadecimal; None on a CPU."""
    pointer_table_offset: int


class BindCommand(TypedDict):
    """Bind the loaded code to the arrays of every slot."""

    command: Literal["bind"]
    specs: Sequence[ArraySpec]
    """Inputs, then outputs."""
    offsets: list[list[int]]
    """Bytes from the start of the shared memory: a row per slot, an entry per array."""
    input_count: int
    scalars: list[tuple[int, Scalar]]
    """Position among the arguments, and value."""
    axes: list[int]


class CallCommand(TypedDict):
    """Call on one slot, then wait for the device; answer: CallAnswer."""

    command: Literal["call"]
    slot: int
    fills_memory: bool
    """New memory, and on a GPU shared memory, holds no zeros during the call."""


class DelayedCallCommand(TypedDict):
    """Call on one slot behind a kernel that spins; answer at once."""

    command: Literal["call-delayed"]
    slot: int
    cycles: int
    """GPU clock cycles of the spinning kernel."""


class OrderedCallCommand(TypedDict):
    """Call on a slot whose inputs are made on the same stream, behind a kernel that spins.

    Until then they hold the inputs of another slot. Answer when the device is done.
    """

    command: Literal["call-ordered"]
    slot: int
    other_slot: int
    cycles: int
    """GPU clock cycles of the spinning kernel."""


class CallSlotsCommand(TypedDict):
    """Call slot after slot, each one's outputs in place before the next; the answer is empty."""

    command: Literal["call-slots"]
    slots: list[int]


class CaptureCommand(TypedDict):
    """Capture calls on some slots, in their order, as one CUDA graph; answer: CaptureAnswer."""

    command: Literal["capture"]
    graph_id: int
    slots: list[int]


@final
class RunSlotsCommand(TypedDict):
    """Call slot after slot; answer: BatchAnswer."""

    command: Literal["run-batch"]
    slots: list[int]
    copies: NotRequired[bool]
    """As in RunGraphCommand."""


@final
class RunGraphCommand(TypedDict):
    """Replay a captured graph; answer: BatchAnswer."""

    command: Literal["run-batch"]
    graph_id: int
    copies: NotRequired[bool]
    """Copy returned outputs to the judge's buffers, which cannot read them where they are; only on
    a GPU, and false unless it is given."""


class ExportCommand(TypedDict):
    """Export the allocations of the GPU's memory that hold some addresses; answer: ExportAnswer."""

    command: Literal["export"]
    addresses: list[int]


@final
class RepeatSlotsCommand(TypedDict):
    """Call slot after slot, ``count`` times over; the answer is empty."""

    command: Literal["repeat"]
    slots: list[int]
    count: int


@final
class RepeatGraphCommand(TypedDict):
    """Replay a captured graph ``count`` times; the answer is empty."""

    command: Literal["repeat"]
    graph_id: int
    count: int


RunBatchCommand = RunSlotsCommand | RunGraphCommand
RepeatCommand = RepeatSlotsCommand | RepeatGraphCommand
Command = (
    BareCommand
    | OpenCommand
    | BindCommand
    | CallCommand
    | DelayedCallCommand
    | OrderedCallCommand
    | CallSlotsCommand
    | CaptureCommand
    | RunBatchCommand
    | ExportCommand
    | RepeatCommand
)


class EmptyAnswer(TypedDict, total=False):
    """Every answer may hold one of these instead of its own keys."""

    kernel_error: str
    """The candidate reported an error; the process goes on."""
    exception: str
    """An exception, as ``Type: message``."""


class LoadAnswer(EmptyAnswer, total=False):
    """What was loaded; a C function has no parameters."""

    missing_parameters: list[str]
    """Names of constants in the task's model for which the candidate's has no counterpart."""


class CallAnswer(EmptyAnswer):
    """Whether the code returned its outputs instead of writing them to given arrays."""

    returned: bool


class CaptureAnswer(EmptyAnswer):
    """Whether the capture succeeded."""

    reason: str | None
    """Why not; None where it did."""
    shares_memory: bool
    """As in BatchAnswer."""
    returned: str
    """As in BatchAnswer, of every replay."""


class ExportAnswer(EmptyAnswer):
    """Allocations that hold the addresses asked for."""

    allocations: list[tuple[int, int, str]]
    """Id, first address, and CUDA IPC handle, hexadecimal; no handle where there is none, as of
    memory of cudaMallocAsync."""


class BatchAnswer(EmptyAnswer):
    """Times by the runner's own clock, nanoseconds of all calls of the batch."""

    runner_ns: float
    wait_ns: float
    """Of these, while the calling thread was ready to run and had no core; 0 on a GPU."""
    copy_ns: float
    """On a GPU: to say where returned outputs are, or to copy them where that was asked for."""
    shares_memory: bool
    """Whether tensors that two calls returned are in the same memory."""
    returned: NotRequired[str]
    """Where the outputs are, hexadecimal, as ``pack_returned`` makes it: slot after slot. On a CPU
    the runner writes it to shared memory instead."""


Answer = Mapping[str, object]
"""An answer as the judge reads it: keys and types are the candidate's to choose."""

Handler = Callable[[Any, list[int]], EmptyAnswer]
"""In a runner: takes a command and the file descriptors that came with it, and answers."""
