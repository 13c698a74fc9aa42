"""Parts of jobs: arrays, cases, references, candidate code, runner processes."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict, final

Target = Literal["cpu", "cuda"]
Scalar = bool | int | float
Distribution = Literal["tripled", "hundredth", "hundredfold", "tiny", "negated", "constant",
                       "sparse", "extremes", "outliers", "infinities", "nan"]  # fmt: skip
"""What is done to drawn floating-point inputs; see ``judge/hidden_inputs.py``."""
Precision = Literal["fp32", "tf32", "bf16-products", "bf16", "fp16"]
"""How fp32 arithmetic is done, most exact first. fp32: as IEEE 754 says. tf32: products of matrices
and convolutions in TF32. bf16-products: the same in bf16, on CPUs that have such instructions. bf16
and fp16: weights and inputs are converted, and outputs back."""
StatedPrecision = Literal["fp32", "tf32", "open"]
"""What a task says about it. open: TF32 is exact enough, and so is anything more exact."""


class ArraySpec(TypedDict):
    """A contiguous array."""

    name: str
    shape: list[int]
    dtype: str
    """As torch names it: ``float32``."""


@final
class InputSpec(ArraySpec):
    """An input array and the distribution of its values."""

    fill: str
    """``normal``, ``uniform``, ``integers``, ``offsets``, ``permutation``, ``ones``, ``zeros``."""
    scale: float
    """Standard deviation (normal), exclusive upper bound (uniform, integers) or last value
    (offsets)."""
    low: NotRequired[int]
    """Smallest value of integers; 0 if it is left out."""


@final
class OutputSpec(ArraySpec):
    """An output array."""

    starts_as: str | None
    """The input whose values it holds before each call; None where it is only written."""


@final
class ScalarSpec(TypedDict):
    """An input that is a number, the same in every call."""

    name: str
    value: Scalar


class CaseSpec(TypedDict):
    """One workload with concrete sizes."""

    name: str
    selftest: bool
    """Whether the comparison is tested with wrong outputs first."""
    axis_names: list[str]
    axes: list[int]
    """Their sizes, in the order of the entry point's arguments."""
    inputs: list[InputSpec | ScalarSpec]
    outputs: list[OutputSpec]
    distributions: list[Distribution]
    """Hidden distributions to check besides the inputs as they are drawn."""
    precision: NotRequired[StatedPrecision]
    """Missing: as the reference's file itself and torch's defaults set it."""
    reference: NotRequired[Reference]
    """For this case only; it makes the case's inputs."""


class ToleranceSpec(TypedDict):
    """A kernel's own tolerance: an element matches when |got − want| ≤ atol + rtol·|want|."""

    atol: float
    rtol: float
    matched_ratio: float
    """Share of elements that must match, 0 to 1."""
    max_error: float
    """Upper bound of |got − want| for every element."""


Tolerances = dict[str, ToleranceSpec]
"""By dtype; a dtype without one gets limits that follow from the reference's own error."""


@final
class FunctionReference(TypedDict):
    """A reference that is a Python function of tensors and returns its outputs."""

    kind: Literal["python"]
    file: str
    entry: str
    inputs: str | None
    """A function in the same file that makes the inputs from the axes; None: ``fill`` does."""


@final
class ModuleReference(TypedDict):
    """A reference that is a ``torch.nn.Module`` of a KernelBench-style task."""

    kind: Literal["module"]
    file: str
    entry: str
    seed: int
    """Seeds torch before the weights are drawn, and what constant parameters become."""


@final
class RecordedReference(TypedDict):
    """Inputs and outputs that were recorded; nothing is known of any other input."""

    kind: Literal["recorded"]
    file: str
    """A safetensors file with ``case/name`` for each array."""
    inputs: None


@final
class CodeReference(TypedDict):
    """A reference that is called like a candidate: a C++ function, or a variant."""

    kind: Literal["code"]
    code: Code
    target: Target
    """Where its arrays are: one on a CPU may judge a candidate on a GPU."""
    computes_in: Literal["float64"] | None
    """In which dtype it takes and returns floating-point arrays; None: in their own."""
    inputs: None


Reference = FunctionReference | ModuleReference | RecordedReference | CodeReference


class CEntryCode(TypedDict):
    """A C function: array pointers, axes and a stream in, an error code out."""

    kind: Literal["c"]
    library: str
    entry: str


class TvmFfiCode(TypedDict):
    """A packed function of tensors, by apache-tvm-ffi."""

    kind: Literal["tvm-ffi"]
    library: str
    entry: str


class TorchExtensionCode(TypedDict):
    """A function of a Python extension module."""

    kind: Literal["torch-extension"]
    library: str
    module: str
    entry: str
    returns: bool
    """Whether it returns its outputs instead of writing them to arrays that are passed in."""


class PythonCode(TypedDict):
    """A function of a Python file."""

    kind: Literal["python"]
    file: str
    entry: str
    returns: bool
    use_out: bool
    """Pass the output arrays as ``out=`` where the function has such a parameter."""
    compile: bool
    """Run it through ``torch.compile``."""
    precision: NotRequired[Precision]
    """Of a rival. Missing: as the file itself and torch's defaults set it."""


class ModuleCode(TypedDict):
    """A ``torch.nn.Module`` class of a Python file."""

    kind: Literal["module"]
    file: str
    entry: str
    task: str
    """The file whose ``get_init_inputs`` returns the constructor's arguments."""
    task_entry: str
    """The class of the task's own model, in that file."""
    seed: int
    """As in ``ModuleReference``."""
    compile: bool
    precision: NotRequired[Precision]
    """Of a rival. Missing: as the file itself and torch's defaults set it."""


Code = CEntryCode | TvmFfiCode | TorchExtensionCode | PythonCode | ModuleCode


class RunnerLimits(TypedDict):
    """What a runner process may use before the judge kills it."""

    memory_bytes: int
    threads: int
    processes: int
    file_bytes: int
    """Of each file that it writes."""


class RunnerSpec(TypedDict):
    """A runner process: its code, and what confines it."""

    code: Code
    sandbox_command: list[str]
    """Command that applies the sandbox and runs its arguments; ``{folder}`` stands for the runner's
    own folder. Empty: no sandbox."""
    may_fork: bool
    cache_folder: str | None
    """Where its compilers (Triton, inductor) keep what they build; None: in its own folder."""
    limits: RunnerLimits


RunnerStatus = Literal["timed-out", "out-of-memory", "out-of-gpu-memory", "limit-exceeded",
                       "unloadable", "crashed", "kernel-error"]  # fmt: skip


class RunnerFailure(TypedDict):
    """How a candidate failed without an answer to compare."""

    status: RunnerStatus
    detail: str
    exit_status: int | None
    """Where the process ended by itself, by ``exit`` and without an exception."""
    case: str | None
    """The case that it was called on."""


class HostGap(TypedDict):
    """What this machine lacks for measuring, and what to do about it."""

    gap: str
    cure: str | None
    """None: what ``kb env`` lists."""


DataRole = Literal["ids", "offsets", "lengths", "mask"]


class DataSummary(TypedDict):
    """What the values of an input look like on which the speed of a kernel may depend."""

    name: str
    role: DataRole
    """ids: positions in another array, or classes. offsets: where rows begin. lengths: of rows."""
    says: str
    """In one line: dtype, shape and what is to be known of the values."""
    metrics: dict[str, float]
    """By metric id; those that its role has, and that its values allow."""
