"""Defines the results of environment, build, check, bench and profile, the verdict, and sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from pydantic import AwareDatetime, Field

from kernelkb.model.base import Name, Record, Slug, Target

FailureVerdict = Literal["incorrect", "invalid"]
TimedVerdict = Literal["faster", "slower", "inconclusive"]
Verdict = Literal["faster", "slower", "inconclusive", "incorrect", "invalid"]
"""incorrect: the answers are wrong. invalid: it could not be timed, or the times are not its
own. inconclusive: right, and the interval of the speedup contains 1, or the times are doubtful."""

Status = Literal["ok", "warning", "failure"]

Disturbance = Literal["cpu-contention", "gpu-contention", "thermal", "unsteady-times"]
"""What else happened on the machine during a bench."""

DISTURBANCE_TEXT: dict[Disturbance, str] = {
    "cpu-contention": "its threads waited for CPU cores; measure again when the machine is idle",
    "gpu-contention": "the GPU had other work; measure again when nothing else uses it",
    "thermal": "the GPU lowered its clocks; measure again when it is cool",
    "unsteady-times": "its times varied widely; measure again when the machine is idle",
}
"""What happened and the cure; the warnings of the bench hold the counts."""

SweepVerdict = Verdict | Literal["correct", "not-run"]
"""``correct``: checked and not to be timed. ``not-run``: nothing is known of the kernel, since the
worker lacks something, the kernel.yaml is wrong or the reference fails."""

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
Precision = Literal["fp32", "tf32", "bf16-products", "bf16", "fp16"]
"""How fp32 arithmetic is done, most exact first. fp32: as IEEE 754 says. tf32: products of matrices
and convolutions in TF32. bf16-products: the same in bf16, on CPUs with such instructions. bf16 and
fp16: weights and inputs are converted, and outputs back."""


def is_valid(verdict: Verdict | str | None) -> bool:
    """Return whether the answers are right and the times count; False without a verdict."""
    return verdict in get_args(TimedVerdict)


def is_decided(verdict: Verdict | str | None) -> bool:
    """Return whether a bench says which one is faster: the candidate or its baseline."""
    return is_valid(verdict) and not is_undecided(verdict)


def is_undecided(verdict: Verdict | str | None) -> bool:
    """Return whether the times count, and do not say which one is faster."""
    return verdict == "inconclusive"


def is_failure(verdict: Verdict | str | None) -> bool:
    """Return whether something is to be corrected before it can be timed."""
    return verdict in get_args(FailureVerdict)


def is_wrong(verdict: Verdict | str | None) -> bool:
    """Return whether the answers are wrong."""
    return verdict == "incorrect"


def may_be_noise(verdict: Verdict | str | None) -> bool:
    """Return whether other work on the machine can have made this verdict: all but a gain."""
    return is_valid(verdict) and verdict != "faster"


class EnvironmentLine(Record):
    """One requirement, and what was found on this machine."""

    name: str
    status: Status
    found: str
    cure: str | None = None


class Machine(Record):
    """The machine, the compiler and the interpreter that measurements depend on."""

    target: Target
    title: str
    """CPU model or GPU name, as the system reports it."""
    device: Slug | None = None
    """Id of the GPU in the knowledge; None if it is not there."""
    core_count: int
    """CPU cores that this process may use."""
    cache_bytes: int
    """Last-level cache of the target: L3 on a CPU, L2 on a GPU."""
    simd_lanes_count: int = 1
    """fp32 lanes of the widest vector unit of the CPU."""
    cc: str | None = None
    """Compute capability, such as ``9.0``; None on a CPU."""
    compiler: str
    compiler_version: str
    python: str
    """The interpreter that holds torch and runs the worker."""
    torch: str


class Environment(Record):
    """The result of validating this machine."""

    target: Target
    lines: tuple[EnvironmentLine, ...]
    machine: Machine | None
    """None when something required is missing; then one of the lines is a failure."""
    seconds: float


class PracticalPeaks(Record):
    """What a GPU reaches in practice, from a microbenchmark; the best of several runs."""

    title: str
    """Its name, as the driver reports it."""
    device: Slug | None
    """Its id in the knowledge."""
    driver: str
    measured_at: AwareDatetime
    copy_gbps: float = Field(gt=0)
    """A copy of a buffer far larger than L2: bytes read plus bytes written, 1e9 per second."""
    l2_read_gbps: float = Field(gt=0)
    """Reads of a buffer that fits L2, past L1."""
    empty_us: float = Field(gt=0)
    """An empty kernel, from one end to the next in a queue."""
    l2_latency_ns: float = Field(gt=0)
    """One load of a chain of dependent loads."""
    dram_latency_ns: float = Field(gt=0)
    dram_loaded_latency_ns: float = Field(gt=0)
    """The same while the other SMs read memory as fast as they can."""
    atomic_rate_address: float = Field(gt=0)
    """Float additions of all SMs to one word: 1e9 per second."""
    atomic_rate_sector: float = Field(gt=0)
    """To the 8 words of one sector of 32 bytes."""
    atomic_rate_random: float = Field(gt=0)
    """To random words of 8 MiB."""
    cas_rate_random: float = Field(gt=0)
    """Compare-and-swap of 16 bits at random words of 4 MiB."""
    mix_gbps: tuple[tuple[float, float], ...] = ()
    """Bandwidth of device memory by the share of the bytes that are read, 0 to 1: rows of both."""
    gather_gbps: tuple[tuple[float, float], ...] = ()
    """Of gathers of 32 bytes at random places, by the bytes of the buffer over those of L2."""
    narrow_gbps: tuple[tuple[float, float], ...] = ()
    """Of copies, read plus written, by the bytes of a lane: 1 to 16."""
    l2_mix_gbps: tuple[tuple[float, float], ...] = ()
    """Of buffers that stay in L2, by the share of the bytes that are read."""
    random_gbps: tuple[tuple[float, float, float], ...] = ()
    """Of pieces read at random places: bytes of the buffer over those of L2, bytes of a piece, and
    GB/s of the pieces."""
    atomic_rates: tuple[tuple[float, float], ...] = ()
    """Float additions to global memory by the words among which they are spread."""
    shared_atomic_rates: tuple[tuple[float, float], ...] = ()
    """Integer additions of all SMs to shared memory, by the words of a block."""
    fma_rate: float | None = Field(None, gt=0)
    """fp32 multiply-adds of all SMs: 1e9 per second, here and below."""
    fp64_rate: float | None = Field(None, gt=0)
    integer_rate: float | None = Field(None, gt=0)
    """32-bit multiply-adds."""
    special_rate: float | None = Field(None, gt=0)
    """Powers of two by the special function unit."""
    shared_gbps: float | None = Field(None, gt=0)
    """Reads of shared memory by all SMs."""
    dram_share: float | None = Field(None, gt=0, le=1)
    """Highest share of the memory peak that a counter shows for the copy; None without ncu."""
    l2_share: float | None = Field(None, gt=0, le=1)
    """Highest share of a peak of L2 that a counter shows for the reads."""
    profiled_empty_us: float | None = Field(None, gt=0)
    """Duration of an empty kernel under Nsight Compute."""
    problem: str = ""
    """Why the last three are None; empty if they are not."""


class Loop(Record):
    """The compiler's report on one loop."""

    line: int
    vectorized: bool
    reason: str


class KernelResources(Record):
    """The resources that ptxas reports for one ``__global__`` function."""

    kernel: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_smem_bytes: int


class Build(Record):
    """A compiled variant, or the compiler's first error."""

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
    """Innermost loops, and whether each was vectorized (CPU variants)."""
    resources: tuple[KernelResources, ...] = ()
    """Per ``__global__`` function (CUDA variants)."""
    unrecorded: str | None = None
    """Why the open session or the history has no entry of it."""
    attempt: str | None = None
    """Id of this state of the source in the history; ``kb lab restore`` takes it."""
    same_code: str | None = None
    """Which earlier attempt has this machine code, and its time if ``kb bench`` answers with it."""
    warnings: tuple[str, ...] = ()
    """What speaks against the author's words for the change."""


class InputData(Record):
    """What the values of an input look like, on which the speed of a kernel may depend."""

    name: str
    role: Literal["ids", "offsets", "lengths", "mask"]
    """ids: positions in another array, or classes. offsets: where rows begin. lengths: of rows."""
    says: str
    """In one line."""
    metrics: dict[Name, float] = Field(default_factory=dict)


_FEWEST = frozenset({"warp_update_count", "mask_kept_share", "mask_tile_share"})
"""Metrics of which the smallest of several inputs counts; of the others the largest does."""


def choose_telling(data: Sequence[InputData]) -> dict[str, InputData]:
    """Return for each metric of the inputs the one input that it is told of: the most extreme."""
    telling: dict[str, InputData] = {}
    for one in data:
        for name, value in one.metrics.items():
            known = telling.get(name)
            sign = -1 if name in _FEWEST else 1
            if known is None or sign * value > sign * known.metrics[name]:
                telling[name] = one
    return telling


class CheckedCase(Record):
    """The check of one workload on fresh random inputs."""

    workload: str
    status: Literal["correct", "incorrect"]
    max_abs_error: float | None
    """Against the fp64 reference; None when the output has NaN or was not written."""
    reference_error: float
    """Maximum absolute error of the reference itself in the kernel's dtype."""
    matched_ratio: float
    """Share of the elements within tolerance, 0 to 1."""
    nan_count: int
    steady: bool = True
    """Whether a second call with the same inputs gave the same bits."""
    error_shape: tuple[str, ...] = ()
    """Of wrong outputs: where, what stands there instead, and in which calls, in sentences."""
    why: str | None = None


class Check(Record):
    """Whether the outputs of a variant match the reference, compared in the judge process."""

    kernel: Name
    variant: Slug
    target: Target
    status: RunStatus
    cases: tuple[CheckedCase, ...] = ()
    selftest: tuple[str, ...] = ()
    """Kinds of deliberately wrong outputs that the comparison rejected first."""
    layers: tuple[str, ...] = ()
    """Sandbox layers that were active on this Linux kernel."""
    hidden_inputs: tuple[str, ...] = ()
    """Distributions and sizes besides the kernel's own on which it is correct too."""
    notes: tuple[str, ...] = ()
    """Hidden inputs that were left out, with the reason, and what memory did not suffice for."""
    sanitized: tuple[str, ...] = ()
    """Tools of compute-sanitizer that finished without a finding."""
    data: tuple[InputData, ...] = ()
    """Of the last workload that was named: its ids, offsets, lengths and masks."""
    when: str | None = None
    """What the workloads have in common on which it is wrong; None where that is not known."""
    symptom: Slug | None = None
    """Id of the entry that explains how the outputs are wrong; None: no entry does."""
    detail: str | None = None
    cure: str | None = None
    seconds: float
    unrecorded: str | None = None
    """Why the open session has no entry of it."""

    @property
    def failure(self) -> FailureVerdict | None:
        """The verdict of a variant that fails its check; None for a correct one."""
        if self.status == "correct":
            return None
        return "incorrect" if self.status in ("incorrect", "kernel-error") else "invalid"


class Rival(Record):
    """A baseline: one implementation that a user could run instead."""

    name: str
    eager_us: float | None = None
    graph_us: float | None = None
    """In a CUDA graph, without launch time; None on a CPU or if it cannot be captured."""
    rejected: str | None = None
    """Why it could not be timed."""


class Bench(Record):
    """Candidate timed against the fastest baseline, in alternating batches, on one workload."""

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
    """graph: all calls of a batch in one CUDA graph, without launch time. eager: call by call."""
    eager_us: float | None = None
    """Time of a call with its launch by the CPU; by the runner's own clock."""
    warm_us: float | None = None
    """Time with data in the cache, by the runner's own clock; not used for the verdict."""
    floor_us: float | None = None
    """Lower bound of a correct kernel's time on this machine, by its measured peaks."""
    attainable_speedup: float | None = None
    """Candidate time over the floor."""
    rivals: tuple[Rival, ...] = ()
    accuracy: Accuracy | None = None
    """None where no timed call was compared."""
    judged_count: int = 0
    """Timed calls whose outputs were compared with the reference."""
    hidden_inputs: tuple[str, ...] = ()
    """Hidden distributions on which a call between the timed ones was correct; none of those that
    the candidate refuses or for which the reference is undefined."""
    clocks: Clocks | None = None
    layers: tuple[str, ...] = ()
    disturbed_by: Disturbance | None = None
    """What slowed the machine down during the bench. An ``inconclusive`` verdict is then no
    evidence about the candidate, and of ``slower`` only the direction is."""
    resource_use: ResourceUse | None = None
    warnings: tuple[str, ...] = ()
    data: tuple[InputData, ...] = ()
    """Its ids, offsets, lengths and masks, as its check drew them."""
    metrics: dict[Name, float] = Field(default_factory=dict)
    samples: tuple[tuple[float, float], ...] = Field(default=(), exclude=True)
    """Microseconds of a call of candidate and baseline, per pair of batches; for the database."""
    measurement: str | None = None
    """Id of its record in the measurement database; ``kb compare`` takes it."""
    unrecorded: str | None = None
    """Why the database has no record of it."""
    from_record: bool = False
    """Whether it was not measured now: the record of this state or of its machine code answered."""
    seconds: float

    @property
    def has_failed(self) -> bool:
        """Whether something is to be corrected before it can be timed."""
        return is_failure(self.verdict)


class Profile(Record):
    """Metrics of one variant by a profiler; they show causes and are never a source of times."""

    kernel: Name
    variant: Slug
    target: Target
    workload: Slug
    tool: str
    metrics: dict[Name, float]
    evidence: tuple[str, ...] = ()
    """Lines of the tools' own output: compiler report, ptxas, torch profiler."""
    data: tuple[InputData, ...] = ()
    """As in ``Bench``."""
    records: tuple[str, ...] = ()
    """Raw CSV pages of Nsight Compute, one per pass; ``kb recommend --profile`` reads them."""
    report: str | None = None
    """A ``.ncu-rep`` file with what was counted at each instruction, for ``kb report`` too."""
    detail: str | None = None
    cure: str | None = None
    measurement: str | None = None
    """Id of its record in the measurement database; ``kb compare`` takes it."""
    unrecorded: str | None = None
    """Why the database has no record of it."""
    seconds: float


class Accuracy(Record):
    """Errors against the fp64 reference, and at which precision the baseline computed.

    An error is the root mean square of the outputs' errors, relative to the outputs' own; of
    several outputs the largest.
    """

    candidate_error: float
    """Of the worst call that was compared."""
    reference_error: float | None = None
    """Of the task's own torch code."""
    task_precision: Precision | None = None
    """Of the task's own torch code; None where it is not known."""
    baseline_precision: Precision | None = None
    """Of the baseline."""
    admitted: tuple[Precision, ...] = ()
    """Lower precisions at which torch was timed too: its error there is no larger than the
    candidate's, or by one bit at most."""
    baseline_error: float | None = None
    """Of the baseline, where it computed at one of those."""
    exact_baseline: str | None = None
    """The fastest baseline at the task's own precision, where another was faster."""
    exact_speedup: float | None = None
    """About what the speedup over that one is: times of a few batches."""


class Clocks(Record):
    """GPU clocks, temperature and throttle reasons (NVML) during the timing."""

    sm_mhz: tuple[float, float]
    """Lowest and highest."""
    sm_max_mhz: float
    temperature_c: float
    power_w: float
    throttled: tuple[str, ...] = ()
    """NVML's reasons for lowered clocks; batches under thermal or power throttling are dropped."""
    dropped_count: int = 0
    """Pairs of batches that were dropped for these reasons."""


class ResourceUse(Record):
    """Memory and energy of candidate and baseline, measured in calls outside of the timed batches.

    None stands for what could not be measured.
    """

    peak_bytes: int | None = None
    """Peak of one call of the candidate: inputs, outputs and scratch memory."""
    baseline_peak_bytes: int | None = None
    """The same of the baseline."""
    held_bytes: int | None = None
    """What the candidate's process keeps between calls. On a CPU what it took since its code was
    loaded, imports included; on a GPU all of its device memory, its CUDA context included."""
    baseline_held_bytes: int | None = None
    """The same of the baseline."""
    joules: float | None = None
    """Energy of the GPU for one call of the candidate (NVML); None on a CPU."""
    baseline_joules: float | None = None
    """The same of the baseline."""
    step_seconds: dict[Name, float] = Field(default_factory=dict)
    """The judge's own time by step, from the end of the check on. start: starting processes,
    importing torch, save what was done beside the check. load: loading the code and its first
    calls. baselines: choosing the baseline and the batch size. timing: the timed pairs. checks:
    comparing their outputs. energy and memory: measuring them."""


class SweepRow(Record):
    """What came out for one variant of one kernel, or for one task."""

    kernel: str
    """The kernel's id; for a task the name of its file."""
    variant: Slug | None
    target: Target | None
    verdict: SweepVerdict
    detail: str | None = None
    """Why it was not timed, or is wrong."""
    cure: str | None = None
    device: str | None = None
    """Name of the GPU or CPU; None where it did not come to a device."""
    lane: str | None = None
    """The worker: its host, a slash, the UUID of its device."""
    seconds: float = 0.0
    """On the lane, waiting for the device included."""
    check: Check | None = None
    bench: Bench | None = None

    @property
    def has_failed(self) -> bool:
        """Whether it is wrong, could not be timed, or nothing is known of it."""
        return is_failure(self.verdict) or self.verdict == "not-run"


class SweepLane(Record):
    """What one lane did."""

    lane: str
    """Its host, a slash, the UUID of its device."""
    model: str
    judged_count: int
    busy_share: float | None
    """Share of the time from its first kernel to its last in which it did not wait for work or for
    its device, 0 to 1; None where it judged nothing."""


class Sweep(Record):
    """Every row, sorted by name, and the lanes."""

    rows: tuple[SweepRow, ...]
    left_out: dict[str, str]
    """Kernels without such a variant, target or workload, and tasks without a candidate: why."""
    not_judged_count: int = 0
    """Variants that an interrupt kept from being judged."""
    lanes: tuple[SweepLane, ...]
    counts: dict[str, int] = Field(default_factory=dict)
    """Count of rows by verdict."""
    seconds: float
