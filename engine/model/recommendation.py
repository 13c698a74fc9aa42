"""The object that ``kb recommend --json`` prints and ``recommend_fix`` returns.

The engine answers in plain dictionaries, because building these classes costs more than deciding.
These are the contract: the tests hold every answer against them, and MCP publishes their schema.
"""

from __future__ import annotations

from typing import Literal

from kernelkb.model.base import Record


class Gate(Record):
    """Should work on this kernel go on?"""

    id: str
    verdict: Literal["stop", "caution", "continue", "done"]
    because: str


class Headroom(Record):
    """How far the kernel is from the fastest that this machine could do the same work."""

    bound: Literal["memory", "compute", "launch"] | None
    """The roof that is reached first; null when the floor was given, not worked out."""
    floor_us: float
    measured_us: float
    attainable_speedup: float


class Reason(Record):
    """One comparison that was made."""

    metric: str
    value: float
    op: str
    limit: float
    source: str


class RuledOut(Record):
    """A look-alike, and the measurement that excluded it."""

    bottleneck: str
    because: str


class PredictedSpeedup(Record):
    """Of the kernel's time, after calibration; never beyond the roofline floor."""

    low: float
    point: float
    high: float


class CombinedSpeedup(PredictedSpeedup):
    """What the best change of each group would give together.

    Changes of one group remove the same cycles, so only the best of each counts; shares of time
    removed combine as 1 - (1 - a)(1 - b).
    """

    groups: tuple[str, ...]


class Expectation(Record):
    """If the metric does not move like this after the fix, the diagnosis was wrong: revert."""

    metric: str
    expect: str


class Advice(Record):
    """One change to try."""

    id: str
    do: str
    before: str
    after: str
    when_not: str | None
    cost_min: int
    risk: str


class LearnedFrom(Record):
    """What a prediction rests on where sessions taught something; the first fix decides."""

    fix: str
    architecture: str
    """``sm_90``, or ``cpu``."""
    prior: float
    """Share of an estimated saving that was taken for granted before."""
    calibration: float
    """The share that is now."""
    count: float
    """Measured cases; of several fixes applied together each counts as a part."""
    session_count: int
    sessions: tuple[str, ...]
    """The latest of them; `kb show FIX` names all."""


class Diagnosis(Record):
    """What one bottleneck says about the metrics."""

    bottleneck: str
    group: str
    verdict: Literal["matches", "unknown"]
    confidence: float
    """0 to 1; 0 while the verdict is unknown."""
    predicted_speedup: PredictedSpeedup | None
    because: tuple[Reason, ...]
    ruled_out: tuple[RuledOut, ...]
    falsifier: Expectation | None
    fixes: tuple[Advice, ...]
    """Empty while the verdict is unknown: an unconfirmed cause gets no cure."""
    learned: LearnedFrom | None = None
    """Null where the prediction rests on calibration.yaml alone."""


class Suppressed(Record):
    """Advice that the numbers suggest and the situation forbids."""

    bottleneck: str
    guard: str
    because: str
    fix: str | None = None
    """The one fix that is withheld; null when the whole diagnosis is."""


class Measure(Record):
    """What to measure next, and how."""

    metric: str
    separates: tuple[str, ...]
    cost: float
    command: str


class RuleSaid(Record):
    """What one of Nsight Compute's own rules says about the launch: evidence, not our verdict."""

    rule: str
    says: str
    scope: Literal["kernel", "local"] | None
    """Of the whole kernel, or of one unit of it only; null without an estimate."""
    removes: float | None
    """The rule's estimate, as a share of the time of its scope."""
    speedup: float | None
    """1 / (1 - removes). Null for a local one, which needs a weight that the rule does not give."""


class Conclusions(Record):
    """What the evidence at hand allows somebody to say, and what it does not."""

    can: tuple[str, ...]
    cannot: tuple[str, ...]


class KernelAnswer(Record):
    """Everything there is to say about one kernel."""

    kernel: str
    launch: int
    device: str | None
    gate: Gate
    evidence_level: Literal["L0", "L1", "L2", "L3", "L4"]
    conclusions: Conclusions
    headroom: Headroom | None
    combined_speedup: CombinedSpeedup | None
    """Null unless changes of at least two groups can be priced."""
    diagnoses: tuple[Diagnosis, ...]
    """Every match, then the unknown ones to which most points."""
    open_count: int
    """Bottlenecks that stay unknown, those not listed included."""
    suppressed: tuple[Suppressed, ...]
    measure_next: tuple[Measure, ...]
    ncu_rules: tuple[RuleSaid, ...]
    """Empty unless a report was read that holds them."""
    notes: tuple[str, ...]
    """What was odd about the numbers, and what was left out because of it."""
    next: tuple[str, ...]


class KnowledgeStamp(Record):
    """Which knowledge gave the answer."""

    version: str
    sha256: str
    overlay: str | None


class Recommendation(Record):
    """One object for one call, one entry for each kernel in the report."""

    kernels: tuple[KernelAnswer, ...]
    knowledge: KnowledgeStamp
