"""Jobs of the worker and their results: check, bench, trials, profilers, tasks, probes."""

from __future__ import annotations

from typing import Literal, NamedTuple, NotRequired, TypedDict, final

from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    Code,
    DataSummary,
    HostGap,
    Precision,
    Reference,
    RunnerFailure,
    RunnerSpec,
    Scalar,
    Target,
    Tolerances,
)


class CheckJob(TypedDict):
    """Compare a candidate's outputs with the reference's on every case."""

    mode: Literal["check"]
    target: Target
    reference: Reference
    tolerances: Tolerances
    cases: list[CaseSpec]
    hidden_sizes: list[CaseSpec]
    """Sizes that kernel.yaml does not name: a candidate may refuse them, but not be wrong."""
    timeout_s: float
    """For the candidate, all cases together; the judge's own time is not counted."""
    free_bytes: int | None
    """What the judge's arrays may take; None: what the GPU has free."""
    runners: dict[str, RunnerSpec]
    """One: ``candidate``."""


class OutputComparison(TypedDict):
    """Outputs against the reference; of several outputs the worst."""

    correct: bool
    max_abs_error: float | None
    """None where it is infinite or NaN."""
    matched_ratio: float
    nan_count: int
    """NaN where the reference has none; outputs that were never written are NaN."""
    reference_error: float
    """Largest error of the reference itself, computed in the kernel's own dtype."""


class CaseResult(OutputComparison):
    """A candidate on one case: the worst of several calls."""

    name: str
    kernel_error: str | None
    tampering: str | None
    """What it wrote besides its outputs, or that it ignored the order of its stream."""
    is_deterministic: bool
    """Two calls on the same inputs returned the same bits."""
    has_tf32_error: bool
    """It is incorrect, and as far off as products of fp32 in TF32 are."""
    error_shape: list[str]
    """Of wrong outputs: where they are wrong, what stands there instead and in which calls, in
    sentences; empty: nothing is known."""


class CheckReport(TypedDict):
    """What the judge saw of a candidate."""

    cases: list[CaseResult]
    """Of hidden inputs only those that failed."""
    hidden_inputs: list[str]
    """Hidden distributions and sizes on which it was correct, in words."""
    notes: list[str]
    """Hidden inputs that were left out, and why; and what was given up to save memory."""
    missing_parameters: list[str]
    """Parameters of the task's model that the candidate's lacks."""
    selftest_accepted: list[str]
    """Outputs that are wrong on purpose and pass the comparison: its limits are too wide."""
    selftest_rejected: list[str]
    runner_died: RunnerFailure | None
    layers: list[str]
    """Sandbox layers that the kernel of this machine applied."""
    data: NotRequired[dict[str, list[DataSummary]]]
    """By named workload: its ids, offsets, lengths and masks, as drawn for its first call."""


class JudgeResult(TypedDict, total=False):
    """One key of those that the subclass names, or this one."""

    unsupported_host: HostGap


class CheckJobResult(JudgeResult, total=False):
    """Answer to a CheckJob: exactly one key."""

    report: CheckReport


class BenchJob(TypedDict):
    """Time a candidate against the fastest of its rivals, on one case."""

    mode: Literal["bench"]
    target: Target
    reference: Reference
    tolerances: Tolerances
    cases: list[CaseSpec]
    """One."""
    runners: dict[str, RunnerSpec]
    """``candidate``, and the rivals by their names."""
    reduced_rivals: dict[Precision, dict[str, RunnerSpec]]
    """Rivals at lower precisions, most exact first, by their names; started where the candidate is
    no more exact than they are."""
    returns: bool
    """Whether the candidate returns its outputs."""
    working_set_bytes: int
    """All inputs and outputs of the case."""
    cache_bytes: int
    """The cache to flush before each batch: L2 of a GPU, L3 of a CPU."""
    budget_s: float
    """How long to time pairs of batches."""
    min_pairs: int
    max_pairs: int
    batch_ns: float
    """Length of a batch to aim at."""
    max_slots: int
    arena_bytes: int
    """Upper bound of the memory for all slots."""
    free_bytes: int | None
    """As in ``CheckJob``."""


class Batch(NamedTuple):
    """One timed batch: calls on distinct buffers, one after another."""

    judge_ns: float
    """All calls, by the judge's clock, less ``foreign_wait_ns``; with the harness's round trip."""
    runner_ns: float
    """All calls, by the runner's own clock (CUDA events on a GPU), less the same."""
    calls: int
    start_s: float
    """On the system's monotonic clock."""
    end_s: float
    copy_ns: float = 0.0
    """To say where returned outputs are, on a GPU, by the runner's clock; not the kernel's work."""
    runqueue_wait_ns: float = 0.0
    """How long threads of the runner and of the judge waited on the run queue for a core, besides
    ``foreign_wait_ns``."""
    idle_read_ns: float = 0.0
    """The judge's own read of the flush buffer just before, while all runners were stopped."""
    reported_copy_ns: float = 0.0
    """The candidate's own ``copy_ns``, where that holds an estimate from the rival's copies."""
    foreign_wait_ns: float = 0.0
    """Of the elapsed time, while the runner was ready to run and others had its core, for certain;
    0 on a GPU. It is in no other time."""


class RivalTimes(TypedDict):
    """Median nanoseconds of one call."""

    eager_ns: float
    graph_ns: float | None
    """In a CUDA graph; None where there is none."""


class PairTimes(TypedDict):
    """Candidate and rival, batch by batch."""

    candidate_batches: list[Batch]
    rival_batches: list[Batch]
    """As many; those of one index were timed one after the other."""
    single_call_batches: list[Batch]
    """The candidate's, of one call each, at times that it cannot foresee; none where every batch
    is one call."""
    rival_single_call_batches: list[Batch]
    """The rival's, as many; those of one index were timed one after the other."""
    warm_call_ns: float
    """Median nanoseconds of one call of the candidate whose data is in the cache."""
    busy_cores: float | None
    """Mean number of cores that the candidate keeps busy; None on a GPU."""
    are_busy_cores_certain: bool
    """Whether that would be the same with no other program on the machine."""
    checked_count: int
    """Timed calls that were compared with the reference."""
    check_s: float
    """Seconds that comparing them took."""
    hidden_inputs: list[str]
    """Hidden distributions on which it was right between timed calls, in words."""
    is_plainly_slower: bool
    """Whether the pairs show by a factor of 2 that the candidate is slower; then they are few."""
    new_thread_count: int
    """Threads that the candidate started while it was timed, and left."""
    idle_cpu_ns: float
    """CPU time that its process used while it ran without a command, after the timing; 0 where it
    left no threads."""


class MemoryReadings(TypedDict):
    """Memory of one runner, by ``MemoryMeter``; None where it could not be measured."""

    scratch_bytes: int | None
    """Peak of one call beyond what the runner held before it, its outputs not counted."""
    held_bytes: int | None
    """What the runner keeps between calls."""


class EnergyStretch(TypedDict):
    """Calls of one runner in a row, long enough for a GPU's energy counter."""

    start_s: float
    """On the system's monotonic clock."""
    end_s: float
    calls: int


class ResourceReadings(TypedDict):
    """What candidate and rival use besides time, and the judge's own time."""

    candidate_memory: MemoryReadings
    rival_memory: MemoryReadings
    candidate_energy: EnergyStretch | None
    """None on a CPU, where calls take too long to repeat, and for one that is plainly slower."""
    rival_energy: EnergyStretch | None
    step_seconds: dict[str, float]
    """The judge's own time, by ``judge/step_clock.py``."""


class PrecisionReport(TypedDict):
    """Errors of candidate and rivals: root mean square, relative to the outputs' own.

    Of several outputs the largest.
    """

    base: Precision | None
    """Of the rivals at the task's own precision; None where it is not known."""
    base_rivals: list[str]
    """Their names."""
    base_error: float | None
    """Of the reference at that precision; None where nothing was measured."""
    candidate_error: float | None
    """Of its worst call."""
    rivals: dict[str, Precision]
    """Those at lower precisions that the candidate's error admitted."""
    rival_errors: dict[str, float]
    """Theirs."""


class BenchTimes(PairTimes, ResourceReadings):
    """All times of a bench, without a verdict."""

    rival_name: str
    rivals: dict[str, RivalTimes]
    rejection_reasons: dict[str, str]
    """Why a rival could not be timed, by its name."""
    left_out: list[str]
    """Names of those among them that could have been timed: no verdict depended on them."""
    uses_graph: bool
    """Whether the batches are CUDA graphs."""
    no_graph_reason: str | None
    """Why the candidate's are not, where that was tried."""
    eager_ns: float
    """Median nanoseconds of one call of the candidate, launched one by one."""
    layers: list[str]
    """Sandbox layers around the candidate."""
    copy_ns: float | None
    """Copies of one call's outputs, by the slowest rival; None where nothing is copied."""
    idle_read_ns: float
    """As in ``Batch``, before the candidate was loaded; 0 on a CPU."""
    precision: NotRequired[PrecisionReport]
    notes: NotRequired[list[str]]
    """What was given up to save memory."""


class BenchJobResult(JudgeResult, total=False):
    """Answer to a BenchJob: exactly one key."""

    times: BenchTimes
    runner_died: RunnerFailure
    """The candidate did not last."""
    incorrect_reason: str
    """A timed call of the candidate was incorrect."""
    baseline_error: str
    """The rival did not last: its name and what happened."""
    baseline_killed: str
    """A signal ended a rival while the candidate was loaded: its name and which signal."""


JudgeJob = CheckJob | BenchJob


def restore_batches(times: PairTimes) -> None:
    """Turn the lists of a decoded result back into batches, in place: JSON has no tuples."""
    times["candidate_batches"] = [Batch(*row) for row in times["candidate_batches"]]
    times["rival_batches"] = [Batch(*row) for row in times["rival_batches"]]
    times["single_call_batches"] = [Batch(*row) for row in times["single_call_batches"]]
    times["rival_single_call_batches"] = [Batch(*row) for row in times["rival_single_call_batches"]]


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
    """Call several functions, one after another, for one run of a profiler."""

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


class ClocksJob(TypedDict):
    """Call a build that reads its clocks, once, and time it and the plain build."""

    mode: Literal["clocks"]
    target: Target
    reference: Reference
    code: Code
    library: str
    """That code's file, with ``kernelkb_clear_clocks`` and ``kernelkb_read_clocks``."""
    plain_code: Code
    cases: list[CaseSpec]
    """One."""
    mark_count: int
    kernel_count: int


class KernelClocks(TypedDict):
    """What the warps of one kernel of a source read in one call."""

    kernel: int
    """Its position in the source."""
    launches: int
    blocks: int
    """Of the last launch; as are its threads."""
    threads: int
    """Of a block."""
    begin_ns: list[int]
    """Of each block that was kept, the first; as are ends and SMs."""
    end_ns: list[int]
    sms: list[int]
    cycles: list[tuple[int, int, int, int, int]]
    """Warp of the block, mark before, mark, cycles between them, and how often."""


class ClocksResult(TypedDict):
    """Answer to a ClocksJob."""

    plain_us: float
    """Mean of a call."""
    clocked_us: float
    kernels: list[KernelClocks]
    """Those that were launched."""


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
    """Answer to a PeaksJob; see ``kernelkb.measure.machine.torch_info.Peaks``."""

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


class TrialJob(TypedDict):
    """Serve trials on one workload until told to stop."""

    mode: Literal["trials"]
    target: Target
    reference: Reference
    tolerances: Tolerances
    case: CaseSpec
    cache_bytes: int
    """Of the last cache; the arrays of the calls take twice as much, up to 16 sets."""


class Trial(TypedDict):
    """Builds to check and to time: one, or several in turns."""

    codes: list[Code]
    best_us: float | None
    """Best time so far; far above it, few samples suffice."""
    budget_s: float
    """For the samples of one build."""
    rounds: int
    """Samples of each build where several are timed in turns; fewer where the budget is used."""


class TrialTimes(TypedDict):
    """Answer to a Trial."""

    status: str
    """``timed``, ``incorrect``, ``refused`` (it returned an error code) or ``unloadable``."""
    detail: str | None
    samples_us: list[list[float]]
    """For each build microseconds of a call; each is a mean over many calls. Empty: not timed."""
