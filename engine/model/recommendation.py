"""Defines the JSON object that ``kb recommend --json`` prints and ``recommend_fix`` returns.

Answers are plain dictionaries, because building pydantic records takes longer than deciding. mypy
checks every place that builds or reads one, and the MCP server and the tests validate answers
against the schema that pydantic derives from these classes and their docstrings.
"""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict  # pydantic takes no typing.TypedDict before Python 3.12

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


class RuledOut(TypedDict):
    """A look-alike, and the measurement that excluded it."""

    bottleneck: str
    because: str


class PredictedSpeedup(TypedDict):
    """Predicted speedup of the kernel after calibration: low, point and high."""

    low: float
    point: float
    high: float


class CombinedSpeedup(PredictedSpeedup):
    """Predicted speedup if the best change of each group is made.

    Changes of one group remove the same cycles, so only the best of each counts; shares of time
    removed combine as 1 - (1 - a)(1 - b).
    """

    groups: list[str]


class Expectation(TypedDict):
    """If the metric does not move like this after the fix, the diagnosis was wrong: revert."""

    metric: str
    expect: str


class Advice(TypedDict):
    """One change to try."""

    id: str
    do: str
    before: str
    after: str
    when_not: str | None
    cost_min: int
    risk: str


class LearnedFrom(TypedDict):
    """The measured cases of the first fix, from which the prediction is calibrated."""

    fix: str
    architecture: str
    """``sm_90``, or ``cpu``."""
    prior: float
    """Share of an estimated saving that was assumed before any case."""
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


class Conclusions(TypedDict):
    """The conclusions that the known metrics allow, and those that they do not."""

    can: list[str]
    cannot: list[str]


class KernelAnswer(TypedDict):
    """The whole answer for one kernel."""

    kernel: str
    launch: int
    device: str | None
    gate: Gate
    evidence_level: Level
    conclusions: Conclusions
    headroom: Headroom | None
    combined_speedup: CombinedSpeedup | None
    """Null unless changes of at least two groups have an estimate."""
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
    next: list[str]


class KnowledgeStamp(TypedDict):
    """Version and hash of the knowledge that an answer is from."""

    version: str
    sha256: str
    overlay: str | None


class Recommendation(TypedDict):
    """The answers of one call, one for each kernel in the report."""

    kernels: list[KernelAnswer]
    knowledge: KnowledgeStamp
