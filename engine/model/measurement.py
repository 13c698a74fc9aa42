"""What the harness found: every failure of a kernel is a result with a status and a cure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelkb.model.base import Name, Record, Slug, Target

Status = Literal["ok", "warning", "failure"]
Verdict = Literal["faster", "slower", "inconclusive", "incorrect", "invalid"]


Disturbance = Literal["cpu-contention", "gpu-contention", "thermal"]
"""What else happened on the machine during a bench."""

DISTURBANCE_TEXT: dict[Disturbance, str] = {
    "cpu-contention": "its threads waited for CPU cores; measure again when the machine is idle",
    "gpu-contention": "the GPU had other work; measure again when nothing else uses it",
    "thermal": "the GPU lowered its clocks; measure again when it is cool",
}
"""What happened and the cure; the warnings of the bench hold the counts."""


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
    status: Literal["built", "cached", "failed", "not-compiled"]
    """not-compiled: Python and Triton are loaded as they are."""
    seconds: float
    library: str | None
    """None when it failed, and for a variant that is not compiled."""
    module: str | None = None
    """The name under which Python imports a torch extension."""
    directory: str
    command: str
    defines: tuple[str, ...] = ()
    """Macros of this configuration, as ``NAME=VALUE``."""
    error: str | None = None
    """The compiler's own first error."""
    cure: str | None = None
    loops: tuple[Loop, ...] = ()
    """Innermost loops, with the compiler's verdict on each (CPU variants)."""
    resources: tuple[KernelResources, ...] = ()
    """Per ``__global__`` function (CUDA variants)."""
    unrecorded: str | None = None
    """Why the open session does not hold it."""


class CheckedCase(Record):
    """One workload, on inputs that were drawn for it and are not kept."""

    workload: str
    status: Literal["correct", "incorrect"]
    max_abs_error: float | None
    """Against the fp64 reference; None when the output holds NaN or was not written."""
    reference_error: float
    """The reference's own error in the kernel's dtype: what an honest kernel may show."""
    matched_ratio: float
    nan_count: int
    steady: bool = True
    """The same inputs gave the same bits again."""
    why: str | None = None


RunStatus = Literal[
    "correct",
    "incorrect",
    "crashed",
    "timed-out",
    "out-of-memory",
    "limit-exceeded",
    "unloadable",
    "kernel-error",
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
    layers: tuple[str, ...] = ()
    """What confined the candidate, as far as this kernel of Linux allows it."""
    sanitized: tuple[str, ...] = ()
    """Tools of compute-sanitizer that looked and found nothing."""
    detail: str | None = None
    cure: str | None = None
    seconds: float
    unrecorded: str | None = None
    """Why the open session does not hold it."""


class Rival(Record):
    """One thing that a user could run instead."""

    name: str
    eager_us: float | None = None
    graph_us: float | None = None
    """In a CUDA graph, free of the time to launch; None on a CPU or where it cannot be captured."""
    rejected: str | None = None
    """Why it could not be timed."""


class Clocks(Record):
    """What the GPU said of itself while it was timed."""

    sm_mhz: tuple[float, float]
    """Lowest and highest."""
    sm_max_mhz: float
    temperature_c: float
    power_w: float
    throttled: tuple[str, ...] = ()
    """Reasons for which the clock was lowered; windows under heat or power alarm are dropped."""
    dropped_count: int = 0


class Bench(Record):
    """Candidate against the fastest baseline, in turn, on one workload, by the judge's clock."""

    kernel: Name
    variant: Slug
    target: Target
    workload: Slug
    verdict: Verdict
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
    timing: Literal["graph", "eager"] | None = None
    """graph: all calls of a window in one CUDA graph, free of the time to launch."""
    eager_us: float | None = None
    """With the time that the CPU needs to launch; by the runner's own clock."""
    warm_us: float | None = None
    """With its data in the cache; by the runner's own clock, so it explains and decides nothing."""
    floor_us: float | None = None
    """No right kernel is faster on this machine, by its measured peaks."""
    attainable_speedup: float | None = None
    """Candidate time over the floor."""
    rivals: tuple[Rival, ...] = ()
    judged_count: int = 0
    """Timed calls whose outputs were compared with the reference."""
    clocks: Clocks | None = None
    layers: tuple[str, ...] = ()
    disturbed_by: Disturbance | None = None
    """What slowed the machine down meanwhile. An ``inconclusive`` verdict with it says nothing of
    the candidate."""
    warnings: tuple[str, ...] = ()
    metrics: dict[Name, float] = Field(default_factory=dict)
    samples: tuple[tuple[float, float], ...] = Field(default=(), exclude=True)
    """Microseconds of a call of candidate and baseline, one pair for each pair of windows that the
    speedup rests on. For the database; no front end prints them."""
    measurement: str | None = None
    """Id of its record in the measurement database; ``kb compare`` takes it."""
    unrecorded: str | None = None
    """Why it has no record, although it was measured."""
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
    """Sentences from the tool itself: the compiler's report, ptxas, torch's profiler."""
    records: tuple[str, ...] = ()
    """Raw pages of Nsight Compute, one for each stage; ``kb recommend --profile`` reads them."""
    detail: str | None = None
    cure: str | None = None
    measurement: str | None = None
    """Id of its record in the measurement database; ``kb compare`` takes it."""
    unrecorded: str | None = None
    """Why it has no record, although it was measured."""
    seconds: float
