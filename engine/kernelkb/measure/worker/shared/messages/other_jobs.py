"""Jobs without a verdict and their results: profilers, task inspection, machine probes."""

from __future__ import annotations

from typing import Literal, TypedDict, final

from kernelkb.measure.worker.shared.messages.specs import CaseSpec, Code, Reference, Scalar, Target


class RepeatJob(TypedDict):
    """Call a candidate without checking it, for a profiler or a sanitizer."""

    mode: Literal["repeat", "repeat-without-torch"]
    target: Target
    reference: Reference
    code: Code
    cases: list[CaseSpec]
    call_count: int
    """On each case."""


class RepeatResult(TypedDict):
    """Answer to a RepeatJob: calls on all cases together."""

    call_count: int


class RepeatSeveralJob(TypedDict):
    """Call several C entry points, one after another, for one run of a profiler."""

    mode: Literal["repeat-several"]
    jobs: list[RepeatJob]


class TorchProfileJob(TypedDict):
    """Call a candidate on a GPU under torch's profiler."""

    mode: Literal["torch-profile"]
    target: Target
    reference: Reference
    code: Code
    cases: list[CaseSpec]
    """One."""
    call_count: int


class TorchProfileResult(TypedDict):
    """Answer to a TorchProfileJob: one call, on average."""

    call_us: float
    """Wall time."""
    kernels_us: float
    """Time in kernels."""
    launches: float
    """Kernels launched."""
    launch_call_us: float | None
    """Median CPU time of one launch; None where none was seen."""
    kernels: dict[str, float]
    """Microseconds by kernel name."""


class KnownTrafficJob(TypedDict):
    """Run a copy kernel of known DRAM traffic, to test the profiler's counters."""

    mode: Literal["known-traffic"]
    bytes: int


class KnownTrafficResult(TypedDict):
    """Bytes read by each launch; as many are written."""

    bytes: int


class DescribeJob(TypedDict):
    """Inspect a KernelBench task."""

    mode: Literal["describe"]
    file: str
    entry: str
    target: Target
    seed: int
    others: str | None
    """A file whose ``get_all_inputs`` yields the inputs of further cases; None where none are."""


@final
class ArrayDescription(TypedDict):
    """A tensor that a task uses."""

    shape: list[int]
    dtype: str


@final
class ScalarDescription(TypedDict):
    """A number that a task uses."""

    value: Scalar


class CaseDescription(TypedDict):
    """Inputs and outputs of one case."""

    inputs: list[ArrayDescription | ScalarDescription]
    outputs: list[ArrayDescription | ScalarDescription]


class TaskDescription(CaseDescription):
    """Inputs and outputs of a task."""

    others: list[CaseDescription | str]
    """The further cases; for one on which no candidate can be compared, the reason."""
    warnings: list[str]
    """Why a correct answer would prove little."""


class DescribeResult(TypedDict, total=False):
    """Answer to a DescribeJob: exactly one key."""

    description: TaskDescription
    unusable_reason: str
    """It runs, but no candidate can be compared with it; with the cure."""


class ProbeJob(TypedDict):
    """Ask the worker's interpreter for versions and the GPU."""

    mode: Literal["probe"]


class GpuInfo(TypedDict):
    """The first GPU."""

    name: str
    cc: str
    sm_count: int
    l2_bytes: int
    memory_bytes: int
    uuid: str


class ProbeResult(TypedDict):
    """Answer to a ProbeJob."""

    python: str
    torch: str
    file: str
    cuda: str | None
    cxx11_abi: bool
    gpu: GpuInfo | None


class PeaksJob(TypedDict):
    """Measure the machine's peak rates."""

    mode: Literal["peaks"]
    target: Target


class PeaksResult(TypedDict):
    """Answer to a PeaksJob; see ``kernelkb.measure.machine.peaks.Peaks``."""

    copy_gbps: float
    dispatch_us: float
    launch_us: float
    gemm_gflops: dict[str, float]


class ReplayJob(TypedDict):
    """Call a function on recorded inputs, and compare what it returns with recorded outputs."""

    mode: Literal["replay"]
    file: str
    entry: str
    target: Target
    values: list[str]
    """Recorded files, see ``observed.ObservedCall``."""
    inputs: list[int]
    """Which of the recorded tensors are passed."""
    numbers: list[list[Scalar]]
    """For each file: what is passed after the tensors."""


class ReplayResult(TypedDict):
    """Answer to a ReplayJob."""

    faults: list[str]
    """For each file: why its outputs are not those that were recorded; empty: they are."""
