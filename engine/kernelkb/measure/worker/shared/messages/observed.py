"""What an observer in the user's program is told, and what it tells: JSON files in one folder."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from kernelkb.measure.worker.shared.messages.specs import DataSummary


class ObserveJob(TypedDict):
    """What to observe."""

    operation: str
    """As given to ``kb init --op``."""
    max_signatures: int
    """Distinct calls, by shapes and other arguments, that are kept; later ones are only counted."""
    max_bytes: int
    """Of the arrays of a call whose values are kept."""


class TraceJob(TypedDict):
    """What to trace: all that a process does, in its own file in the folder of this job."""

    trace_s: float
    """Seconds from its first use of the GPU."""


class StackJob(TypedDict):
    """Write where all threads of a process are, whenever a signal arrives."""

    stack_signal: int
    """``stack-PID.txt`` in the folder of this job grows with each."""


class ObservedTensor(TypedDict):
    """One tensor of a call."""

    name: str
    shape: list[int]
    strides: list[int]
    """In elements."""
    dtype: str
    """As torch names it: ``float32``."""
    device: str
    """``cpu`` or ``cuda``."""
    recipe: dict[str, Any]
    """How its values are distributed: ``kind`` and the parameters of that kind; see
    ``observe/values.py``."""


class ObservedNumber(TypedDict):
    """One number among the arguments of a call."""

    name: str
    value: int | float


class ObservedCall(TypedDict):
    """All calls with the same shapes and other arguments."""

    count: int
    tensors: list[ObservedTensor]
    numbers: list[ObservedNumber]
    arguments: dict[str, Any]
    """``positional`` and ``named``: trees of ``{"tensor": i}``, ``{"number": i}``,
    ``{"code": text}``, ``{"list": [...]}`` and ``{"tuple": [...]}``; ``{"namespace": {...}}`` for
    an object with plain attributes; ``{"module": {...}}`` for a ``torch.nn.Module``, with
    ``class``, ``is_library`` and ``fields``; ``{"context": True}`` for that of an autograd
    function; and ``{"object": type}`` for what cannot be written."""
    outputs: list[ObservedTensor]
    changed: list[int]
    """Which of ``tensors`` it changed in place; each is one more output, after those returned."""
    launch: dict[str, Any] | None
    """Of a Triton kernel: ``grid``, options such as ``num_warps``, and ``constants``: the code of
    each ``tl.constexpr`` argument, by name."""
    autocast: dict[str, str]
    """The dtype of ``torch.autocast`` by the kind of device, where it was enabled."""
    file: str | None
    """With the values: inputs as ``input.0``, outputs as ``output.0``; None: too large."""
    data: NotRequired[list[DataSummary]]
    """Of the first of them: what its ids, offsets, lengths and masks look like."""


class ObservedFunction(TypedDict):
    """One function or operation that the name fits, with its calls."""

    kind: str
    """``python``, ``torch-function``, ``torch-operation``, ``extension`` or ``triton``."""
    name: str
    """As it can be named: ``module:function``, ``namespace::operation``, ``torch.softmax``."""
    module: str
    """Module or namespace."""
    qualname: str
    source_file: str | None
    is_library: bool
    """Whether its file belongs to an installed package."""
    overload: str
    """Of a torch operation."""
    is_method: bool
    kernels: list[str]
    """Triton kernels that it launched: then it is no torch code."""
    libraries: list[str]
    """Extension libraries that the program loaded."""
    modules: dict[str, str]
    """The program's own modules and packages, each with the folder that it is imported from."""
    values: dict[str, str]
    """The code of each plain global of its file, such as a number, at its first call."""
    calls: list[ObservedCall]
    uncounted: int
    """Calls beyond ``max_signatures`` distinct ones."""
    errors: list[str]
    """Why a call could not be recorded."""


class ObservedProcess(TypedDict):
    """What one process of the program saw."""

    functions: list[ObservedFunction]
    seen: dict[str, int]
    """Names of other operations, and how often they were called; the most frequent ones."""
    program: str
    """Its main script; empty where there is none."""
    folder: str
    """Where it started."""
    has_torch: bool
