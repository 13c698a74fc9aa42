"""Defines the JSON object that ``kb recommend --json`` prints and ``recommend_fix`` returns.

Answers are plain dictionaries, because building pydantic records takes longer than deciding. mypy
checks every place that builds or reads one, and the MCP server and the tests validate answers
against the schema that pydantic derives from these classes and their docstrings.
"""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic takes no typing.TypedDict before Python 3.12

from kernelkb.model.answers.next_step import Step
from kernelkb.model.answers.source_place import AccessedLine, ChangePlace, LineAnswer

GateVerdict = Literal["stop", "caution", "continue", "done"]
Level = Literal["L0", "L1", "L2", "L3", "L4"]


class Gate(TypedDict):
    """Whether work on this kernel should continue, and why."""

    id: str
    verdict: GateVerdict
    because: str


class Headroom(TypedDict):
    """The kernel's time compared with the shortest time that this machine allows for its work."""

    bound: Literal["memory", "compute", "launch"] | None
    """The roof that limits the kernel; null when the floor was given, not computed."""
    floor_us: float
    measured_us: float
    attainable_speedup: float


class Reason(TypedDict):
    """One comparison of a metric with a limit, and the source of the limit."""

    metric: str
    value: float
    op: str
    limit: float
    source: str
    input: NotRequired[str]
    """The input of the kernel that the value is of."""


class RuledOut(TypedDict):
    """A look-alike, and the measurement that excluded it."""

    bottleneck: str
    because: str


class PredictedSpeedup(TypedDict):
    """Predicted speedup of the kernel; low to high holds four of five measured gains."""

    low: float
    point: float
    high: float


class CombinedSpeedup(PredictedSpeedup):
    """Predicted speedup if the changes for all diagnoses are made."""

    bottlenecks: list[str]


class Expectation(TypedDict):
    """If this does not hold after the fix, the diagnosis was wrong: revert. It is false now."""

    metric: str
    op: str
    value: float
    before: float
    """The metric before the change."""
    expect: str
    """The comparison in words."""


class MeasuredGain(TypedDict):
    """What a fix gave in the pairs of the zoo, also where it gave nothing."""

    count: int
    median: float
    """Speedup."""
    lowest: float
    highest: float
    kernels: list[str]
    """The pairs; `kb show FIX` lists them with their operation and GPU."""
    bottleneck: str | None
    """The cause that they had; null: not that of this diagnosis."""


class Advice(TypedDict):
    """One change to try."""

    id: str
    do: str
    before: str
    after: str
    on_line: str | None
    """The change on the first line of the diagnosis; null where it has none."""
    tried: str | None
    """What it gave on this kernel before, and why it stands behind others; null where nothing is
    known."""
    when_not: str | None
    undecided: list[str]
    """Metrics that decide whether it can help at all, and are not known."""
    cost_min: int
    risk: str
    predicted_speedup: PredictedSpeedup | None
    """Of this change alone; null where it depends on more than the counters tell."""
    measured: MeasuredGain | None
    """Null without a measured case."""


class LearnedFrom(TypedDict):
    """The measured cases of the first fix, from which the prediction is calibrated."""

    fix: str
    architecture: str
    """``sm_90``, or ``cpu``."""
    prior: float
    """Share of a predicted gain (logarithm of the speedup) that was assumed before any case."""
    calibration: float
    """The share that is assumed now."""
    count: float
    """Measured cases; one in which n fixes were applied together counts 1/n."""
    session_count: int
    sessions: list[str]
    """The latest of them; `kb show FIX` names all."""


class Diagnosis(TypedDict):
    """One bottleneck, judged against the metrics."""

    bottleneck: str
    group: str
    verdict: Literal["matches", "unknown"]
    confidence: float
    """0 to 1; 0 while the verdict is unknown."""
    predicted_speedup: PredictedSpeedup | None
    because: list[Reason]
    ruled_out: list[RuledOut]
    falsifier: Expectation | None
    fixes: list[Advice]
    """Empty while the verdict is unknown."""
    learned: LearnedFrom | None
    """Null where the prediction rests on calibration.yaml alone."""
    lines: LineAnswer | None
    """Null without a report, and for kernels and diagnoses after the first three."""


class TimeShare(TypedDict):
    """One part of the kernel's time; the parts sum to 1."""

    part: str
    """launch, fill, a group of resources, a reason to wait, unexplained, or other."""
    title: str
    share: float
    unit: str
    """Where it is spent; empty for what is unexplained or other."""
    line: str | None
    """Of the largest part, the line with most of its sectors, passes, instructions or samples;
    null without counters by instruction."""


class KernelPhase(TypedDict):
    """A stretch of a kernel in which its resources are used alike."""

    from_us: float
    to_us: float
    use: dict[str, float]
    """Mean share of its peak, 0 to 1, of what is used most, and of what changes between phases."""


class KernelTimeline(TypedDict):
    """The inside of a kernel, in microseconds from its beginning."""

    interval_us: float
    duration_us: float
    is_whole: bool
    """False: the samples end before the kernel does, so all else is of its first part."""
    kernel_us: float | None
    """Its own duration; None: not known."""
    missing_count: int
    """Samples in between that were dropped."""
    ramp_us: float
    """Until nine tenths of the SMs that it fills have work."""
    tail_us: float | None
    """From when fewer than nine tenths of them have; None: not sampled."""
    lost_us: float | None
    """Of the tail, what it would be shorter by if all SMs ended together."""
    last_block_us: float | None
    """When the last block began; None: not sampled."""
    phases: list[KernelPhase]
    """Between ramp and tail."""


class ChainStep(TypedDict):
    """One fix after those before it: what then binds, and what it would give."""

    bottleneck: str
    fix: str
    step_speedup: float
    total_speedup: float
    """With the steps before."""


class JointCure(TypedDict):
    """Two flaws that hide each other, priced together."""

    parts: list[str]
    """Two bottlenecks, or the two things that one fix does at once."""
    alone: list[float]
    """Predicted speedup of each part alone."""
    predicted_speedup: PredictedSpeedup


class Gap(TypedDict):
    """What separates a kernel from its reference or floor, beyond what all fixes explain."""

    against: Literal["reference", "floor"]
    ratio: float
    """Time over that of the reference or the floor."""
    explained: float
    """Predicted speedup of all fixes together."""
    rest: float
    excess: dict[str, float]
    """By level, l1, l2 and dram: bytes moved over those of the algorithm."""
    because: str
    fixes: list[str]
    """Changes of structure that close it, the best first."""
    steps: list[str]
    """The way there, in order."""


class Suppressed(TypedDict):
    """Advice that the metrics suggest and a guard forbids."""

    bottleneck: str
    guard: str
    because: str
    fix: str | None
    """The one fix that is suppressed; null when the whole diagnosis is."""


class Measure(TypedDict):
    """A metric to measure next, and the command that collects it."""

    metric: str
    separates: list[str]
    cost: float
    command: str


class Conclusions(TypedDict):
    """The conclusions that the known metrics allow, and those that they do not."""

    can: list[str]
    cannot: list[str]


class PracticalShares(TypedDict):
    """What the model of the time takes for the practical peaks of the GPU."""

    source: Literal["measured", "catalogue", "assumed"]
    """measured: by ``kb env --measure`` here, or given. assumed: the GPU is unknown."""
    dram: float
    """Share of the memory peak that kernels reach."""
    l2: float


class LaunchTime(TypedDict):
    """Which launch of a report, and how long it took under the profiler; null without a report."""

    launch: int
    duration_us: float | None
    share: float | None
    """Of the time of all launches in the report."""


class NcuRuleEstimate(TypedDict):
    """What a rule of Nsight Compute reports about the launch: evidence, not our verdict."""

    rule: str
    says: str
    scope: Literal["kernel", "local"] | None
    """Of the whole kernel, or of one unit of it only; null without an estimate."""
    removes: float | None
    """The rule's estimate, as a share of the time of its scope."""
    speedup: float | None
    """1 / (1 - removes). Null for a local one, which needs a weight that the rule does not give."""


class Ceiling(TypedDict):
    """The most that the GPU gives of what a kernel uses most, for the same mix of reads and writes.

    A rate of memory is in GB/s; of tensor cores and the launch it is 1, all of the time.
    """

    resource: Literal["memory", "tensor", "launch", "l2"]
    rate: float
    reached: float
    """Share of it that the kernel reached; counters vary, so it may pass 1."""
    read_share: float | None
    """Of the bytes of memory, those that are read; null for other resources."""
    source: Literal["measured", "shipped", "assumed"]
    """measured: by ``kb env --measure`` here. assumed: a share of the data sheet."""
    says: str
    """On which GPU and when it was measured, or what is assumed."""


class RestPart(TypedDict):
    """A part of the time that a kernel takes above its floor."""

    what: str
    us: float
    """By the model of the time, besides those of the timeline."""


class Finish(TypedDict):
    """Whether a kernel near its floor is finished, and what the rest of its time is."""

    verdict: Literal["stop", "stop-if", "change", "open"]
    """stop-if: what must move is not known; open: no told change gains enough, others may."""
    because: str
    needed_bytes: float | None
    """That any kernel of this work moves through memory; null: not known."""
    arrays: dict[str, float]
    """Bytes of each array, for a kernel of the project; else empty."""
    moved: dict[str, float]
    """Bytes by level: dram_read, dram_write and l2."""
    ceiling: Ceiling
    floor_us: float
    """Time at the ceiling of what must move, or of all that moved where that is not known."""
    measured_us: float
    rest: list[RestPart]
    """The time above the floor, the largest part first."""
    waits_at: str | None
    """The line that warps wait for most; null without samples by instruction."""


class SimilarCase(TypedDict):
    """A measured kernel with the same causes and a time budget like this one."""

    kernel: str
    operation: str
    device: str
    bottleneck: str
    fix: str
    """What helped it."""
    speedup: float


class Outlook(TypedDict):
    """What lies beyond the first fix."""

    headroom: Headroom | None
    finish: Finish | None
    """Null without a profile, and for a kernel that takes over 1.5 times its floor."""
    combined_speedup: CombinedSpeedup | None
    """Null unless the changes of at least two diagnoses have a predicted gain."""
    joint: JointCure | None
    """Null unless two flaws hide each other."""
    chain: list[ChainStep]
    """The best fix, then what binds after it, and so on."""
    at_most: float | None
    """Speedup that no change is expected to pass. Null without counters, and where the bytes and
    operations that the work needs are not known: then a change may save what was counted."""
    gap: Gap | None
    """Null unless much is left that no fix explains."""
    time: list[TimeShare]
    """Where the time goes; empty without a profile."""
    peaks: PracticalShares | None
    """Null without a profile."""
    change: ChangePlace | None
    """Null where the verdict is stop or done, without a fix, and for kernels that are not in the
    project."""
    timeline: KernelTimeline | None
    """Null without samples of the kernel as it ran."""
    accesses: list[AccessedLine]
    """Empty without counters by instruction."""
    similar: list[SimilarCase]
    """The nearest measured kernels; empty unless the kernel's history or a report was read."""


class KernelFindings(LaunchTime, Outlook):
    """What an answer says of one kernel, without the steps that follow from it."""

    kernel: str
    device: str | None
    gate: Gate
    evidence_level: Level
    conclusions: Conclusions
    diagnoses: list[Diagnosis]
    """Every match, then the unknown ones with the most true comparisons."""
    open_count: int
    """Number of unknown bottlenecks, including those not listed."""
    suppressed: list[Suppressed]
    measure_next: list[Measure]
    ncu_rules: list[NcuRuleEstimate]
    """Empty unless a report contains them."""
    notes: list[str]
    """Remarks: where the metrics are from, what was left out and why, the next launch to try."""


class KernelAnswer(KernelFindings):
    """The whole answer for one kernel, as the engine passes it on."""

    next: list[Step]
    """Steps in their order."""


class PrintedAnswer(KernelFindings):
    """The whole answer for one kernel, as ``kb recommend --json`` prints it."""

    next: list[str]
    """Steps in their order: shell commands, to be run as they are, and sentences."""


class KnowledgeStamp(TypedDict):
    """Version and hash of the knowledge that an answer is from."""

    version: str
    sha256: str
    overlay: str | None


class Recommendation(TypedDict):
    """The answers of one call, one for each kernel in the report."""

    kernels: list[KernelAnswer]
    knowledge: KnowledgeStamp


class PrintedRecommendation(TypedDict):
    """The same, as ``kb recommend --json`` prints it."""

    kernels: list[PrintedAnswer]
    knowledge: KnowledgeStamp


ProgramTool = Literal["nsys", "torch.profiler", "jax.profiler", "ncu"]
FirstThing = Literal[
    "kernel", "launches", "host", "data", "synchronisation", "copies", "communication"
]


class ProgramFirst(TypedDict):
    """Where a program gains most: in a kernel, or outside of all."""

    what: FirstThing
    """launches: the GPU waits for one after another. host, data, synchronisation: it waits longer,
    for code of the host's own, for its next batch, or for calls that block."""
    kernel: str | None
    """Null unless it is a kernel."""
    at_most: float
    """Speedup of the program without the time lost there; for a kernel with its predicted gain."""
    because: str


class ProgramKernel(TypedDict):
    """A kernel that takes much of a program's time."""

    kernel: str
    share: float
    """Of the time from the GPU's first work to its last, in which it may be idle, too."""
    launches: int
    duration_us: float
    """Median of its launches."""
    at_most: float
    """Speedup of the program if it took no time."""
    speedup: float | None
    """Speedup of the program with the gain that its first cause predicts; null without one."""
    library: str | None
    """Of a library's kernel, what can be changed at the call; null for one of the program's own."""
    called_by: str | None
    """The line of Python that launched it; null where none is known."""
    answer: KernelAnswer | None
    """Null for a kernel that was not looked at."""
    reason: str | None
    """Why it was not."""


class ProgramAnswer(TypedDict):
    """What `kb profile -- COMMAND` found."""

    command: list[str]
    status: int | None
    """How it ended, negative by a signal; null where it was ended after its time."""
    seconds: float
    """Of its first run, with the tool that traced it."""
    output: str
    """The end of what it printed; empty where that was passed on."""
    tool: ProgramTool | None
    """What its timeline is from. ncu: only times of kernels are known. Null: nothing traced it."""
    warm_up_launches: int
    """First launches, which are left out: until each kernel that matters had run once."""
    program: KernelAnswer | None
    """The answer for the whole; null without a timeline."""
    first: ProgramFirst | None
    kernels: list[ProgramKernel]
    """Those that take the most time first."""
    notes: list[str]
    """What was missing, and how to get it."""
    knowledge: KnowledgeStamp
