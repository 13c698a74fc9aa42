"""The answer as plain dictionaries; ``kernelkb.model.recommendation`` is the same, as a schema."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from kernelkb.decide.rules import KnowledgeStampDict


class GateDict(TypedDict):
    """See ``kernelkb.model.recommendation.Gate``."""

    id: str
    verdict: str
    because: str


class HeadroomDict(TypedDict):
    """Microseconds, their ratio, and the roof that holds."""

    bound: str | None
    floor_us: float
    measured_us: float
    attainable_speedup: float


class ReasonDict(TypedDict):
    """One comparison that was made."""

    metric: str
    value: float
    op: str
    limit: float
    source: str


class RuledOutDict(TypedDict):
    """A look-alike, and what excluded it."""

    bottleneck: str
    because: str


class PredictedSpeedupDict(TypedDict):
    """Of the kernel's time."""

    low: float
    point: float
    high: float


class CombinedSpeedupDict(PredictedSpeedupDict):
    """Of the best change in each of several groups together."""

    groups: list[str]


class ExpectationDict(TypedDict):
    """The falsifier."""

    metric: str
    expect: str


class AdviceDict(TypedDict):
    """One change to try."""

    id: str
    do: str
    before: str
    after: str
    when_not: str | None
    cost_min: int
    risk: str


class LearnedFromDict(TypedDict):
    """See ``kernelkb.model.recommendation.LearnedFrom``."""

    fix: str
    architecture: str
    prior: float
    calibration: float
    count: float
    session_count: int
    sessions: list[str]


class DiagnosisDict(TypedDict):
    """What one bottleneck says."""

    bottleneck: str
    group: str
    verdict: str
    confidence: float
    predicted_speedup: PredictedSpeedupDict | None
    because: list[ReasonDict]
    ruled_out: list[RuledOutDict]
    falsifier: ExpectationDict | None
    fixes: list[AdviceDict]
    learned: LearnedFromDict | None


class SuppressedDict(TypedDict):
    """Advice withheld: a whole diagnosis, or one of its fixes."""

    bottleneck: str
    guard: str
    because: str
    fix: NotRequired[str]


class MeasureDict(TypedDict):
    """What to measure next."""

    metric: str
    separates: list[str]
    cost: float
    command: str


class RuleSaidDict(TypedDict):
    """What a rule of Nsight Compute says."""

    rule: str
    says: str
    scope: str | None
    removes: float | None
    speedup: float | None


class ConclusionsDict(TypedDict):
    """What may and may not be said."""

    can: list[str]
    cannot: list[str]


class KernelAnswerDict(TypedDict):
    """Everything about one kernel."""

    kernel: str
    launch: int
    device: str | None
    gate: GateDict
    evidence_level: str
    conclusions: ConclusionsDict
    headroom: HeadroomDict | None
    combined_speedup: CombinedSpeedupDict | None
    diagnoses: list[DiagnosisDict]
    open_count: int
    suppressed: list[SuppressedDict]
    measure_next: list[MeasureDict]
    ncu_rules: list[RuleSaidDict]
    notes: list[str]
    next: list[str]


class RecommendationDict(TypedDict):
    """The whole object."""

    kernels: list[KernelAnswerDict]
    knowledge: KnowledgeStampDict
