"""What the harness found: every failure of a kernel is a result with a status and a cure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engine.model.base import Name, Record, Slug, Target

Status = Literal["ok", "warning", "failure"]


class EnvironmentLine(Record):
    """One thing this machine has or lacks."""

    name: str
    status: Status
    found: str
    cure: str | None = None


class Machine(Record):
    """The machine that the numbers come from."""

    target: Target
    title: str
    """CPU model or GPU name, as the system reports it."""
    device: Slug | None = None
    """Our id of the GPU, when it is one that we know."""
    core_count: int
    """CPU cores that this process may use."""
    cache_bytes: int
    """Last-level cache of the target: L3 on a CPU, L2 on a GPU."""
    simd_lanes_count: int = 1
    """fp32 lanes of the widest vector unit of the CPU."""
    cc: str | None = None
    compiler: str
    compiler_version: str
    python: str
    """The interpreter that holds torch and runs the worker."""
    torch: str


class Environment(Record):
    """The five-minute validation, in seconds."""

    target: Target
    lines: tuple[EnvironmentLine, ...]
    machine: Machine | None
    """None when something needed is missing; then one of the lines is a failure."""
    seconds: float


class Loop(Record):
    """What the compiler said about one loop."""

    line: int
    vectorized: bool
    reason: str


class KernelResources(Record):
    """What ptxas said about one ``__global__`` function."""

    kernel: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_smem_bytes: int


class Build(Record):
    """A compiled variant, or the compiler's first complaint."""

    kernel: Name
    variant: Slug
    target: Target
    status: Literal["built", "cached", "failed"]
    seconds: float
    library: str | None
    directory: str
    command: str
    error: str | None = None
    """The compiler's own first error."""
    cure: str | None = None
    loops: tuple[Loop, ...] = ()
    """Innermost loops, with the compiler's verdict on each (CPU variants)."""
    resources: tuple[KernelResources, ...] = ()
    """Per ``__global__`` function (CUDA variants)."""


class CheckedCase(Record):
    """One workload, one seed."""

    workload: str
    seed: int
    status: Literal["correct", "incorrect"]
    max_abs_error: float | None
    """Against the fp64 reference; None when the output holds NaN or was not written."""
    reference_error: float
    """The reference's own error in the kernel's dtype: what an honest kernel may show."""
    matched_ratio: float
    nan_count: int
    why: str | None = None


RunStatus = Literal[
    "correct", "incorrect", "crashed", "timed-out", "out-of-memory", "unloadable", "kernel-error"
]


class Check(Record):
    """Is the variant right? Judged in a process that the variant never ran in."""

    kernel: Name
    variant: Slug
    target: Target
    status: RunStatus
    cases: tuple[CheckedCase, ...] = ()
    selftest: tuple[str, ...] = ()
    """Wrong outputs that the judge was shown first, all of which it refused."""
    detail: str | None = None
    cure: str | None = None
    seconds: float


class Bench(Record):
    """Candidate against baseline, interleaved in one process on one workload."""

    kernel: Name
    variant: Slug
    target: Target
    workload: Slug
    verdict: Literal["faster", "slower", "inconclusive", "incorrect", "invalid"]
    detail: str | None = None
    cure: str | None = None
    candidate_us: float | None = None
    baseline: str = "torch"
    baseline_us: float | None = None
    speedup: float | None = None
    """Baseline time ÷ candidate time: above 1 is faster."""
    interval: tuple[float, float] | None = None
    """95 % bootstrap interval of the paired speedup."""
    pair_count: int = 0
    metrics: dict[Name, float] = Field(default_factory=dict)
    seconds: float


class Profile(Record):
    """Metrics that explain; they never time."""

    kernel: Name
    variant: Slug
    target: Target
    workload: Slug
    tool: str
    metrics: dict[Name, float]
    evidence: tuple[str, ...] = ()
    """Sentences from the tool itself: the compiler's report, ncu's remarks."""
    detail: str | None = None
    cure: str | None = None
    seconds: float
