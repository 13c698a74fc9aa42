"""The answer as plain dictionaries; ``kernelkb.model.recommendation`` is the same, as a schema."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from kernelkb.decide.rules import Stamp


class Gate(TypedDict):
    """See ``kernelkb.model.recommendation.Gate``."""

    id: str
    verdict: str
    because: str


class Headroom(TypedDict):
    """Microseconds, their ratio, and the roof that holds."""

    bound: str | None
    floor_us: float
    measured_us: float
    attainable_speedup: float


class Reason(TypedDict):
    """One comparison that was made."""

    metric: str
    value: float
    op: str
    limit: float
    source: str


class RuledOut(TypedDict):
    """A look-alike, and what excluded it."""

    bottleneck: str
    because: str


class PredictedSpeedup(TypedDict):
    """Of the kernel's time."""

    low: float
    point: float
    high: float


class CombinedSpeedup(PredictedSpeedup):
    """Of the best change in each of several groups together."""

    groups: list[str]


class Expectation(TypedDict):
    """The falsifier."""

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
    """See ``kernelkb.model.recommendation.LearnedFrom``."""

    fix: str
    architecture: str
    prior: float
    calibration: float
    count: float
    session_count: int
    sessions: list[str]


class Diagnosis(TypedDict):
    """What one bottleneck says."""

    bottleneck: str
    group: str
    verdict: str
    confidence: float
    predicted_speedup: PredictedSpeedup | None
    because: list[Reason]
    ruled_out: list[RuledOut]
    falsifier: Expectation | None
    fixes: list[Advice]
    learned: LearnedFrom | None


class Suppressed(TypedDict):
    """Advice withheld: a whole diagnosis, or one of its fixes."""

    bottleneck: str
    guard: str
    because: str
    fix: NotRequired[str]


class Measure(TypedDict):
    """What to measure next."""

    metric: str
    separates: list[str]
    cost: float
    command: str


class RuleSaid(TypedDict):
    """What a rule of Nsight Compute says."""

    rule: str
    says: str
    scope: str | None
    removes: float | None
    speedup: float | None


class Conclusions(TypedDict):
    """What may and may not be said."""

    can: list[str]
    cannot: list[str]


class KernelAnswer(TypedDict):
    """Everything about one kernel."""

    kernel: str
    launch: int
    device: str | None
    gate: Gate
    evidence_level: str
    conclusions: Conclusions
    headroom: Headroom | None
    combined_speedup: CombinedSpeedup | None
    diagnoses: list[Diagnosis]
    open_count: int
    suppressed: list[Suppressed]
    measure_next: list[Measure]
    ncu_rules: list[RuleSaid]
    notes: list[str]
    next: list[str]


class Recommendation(TypedDict):
    """The whole object."""

    kernels: list[KernelAnswer]
    knowledge: Stamp
