"""What came of a session, computed from its record."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from kernelkb.model.base import Name, Record, Slug, Target
from kernelkb.model.session import SessionId


class AchievedSpeedup(Record):
    """A speedup, and all that it holds for."""

    speedup: float
    """Reference time over ours."""
    interval: tuple[float, float] | None = None
    """None where the record gives none."""
    kernel: Name | None = None
    target: Target | None = None
    machine: str | None = None
    variant: Slug | None = None
    baseline: str | None = None
    workload: str | None = None
    checked: bool = False
    """A check found the same code right."""


class PhaseOutcome(Record):
    """What a phase of the plan was predicted to take, and what it took."""

    phase: Slug
    predicted_min: tuple[float, float, float]
    """Low, point, high; 80 %."""
    minutes: float | None
    """None when nothing of it was logged."""
    inside: bool | None


class SessionOutcome(Record):
    """How a session went. None means that the record does not say; it is never a zero."""

    session: SessionId
    opened: datetime
    kind: Literal["recorded", "reported"]
    goal: str
    kernel: Name | None = None
    """None where the session had several."""
    minutes: float | None = None
    """All of it: work, and pauses of less than an hour where the steps say when they began."""
    worked: bool = False
    """Some code was built and then found right."""
    minutes_to_build: float | None = None
    """Until a check first found right what was built."""
    bottleneck: Slug | None = None
    """The first that a recommendation named."""
    minutes_to_bottleneck: float | None = None
    changes: int | None = None
    """Codes that were built after the first. Going back to an earlier one is no change."""
    blind_changes: int | None = None
    """Changes without a profile since the last one. Mending a wrong result is not blind."""
    judged_changes: int | None = None
    """Changes of which the record tells whether they were wrong."""
    wrong_changes: int | None = None
    """Those whose check failed, or whose whole interval lies below the one before. None where there
    were changes and none could be judged."""
    final: AchievedSpeedup | None = None
    """The last valid bench. The time of code whose check failed is none."""
    best: AchievedSpeedup | None = None
    """The fastest of those on the same kernel, machine, workload and baseline as ``final``."""
    cost_usd: float | None = None
    decisions: int = 0
    predicted: int = 0
    """Decisions with a prediction."""
    measured: int = 0
    """Decisions whose gain was measured."""
    inside: int = 0
    """Decisions with both, the measured gain inside the predicted interval."""
    compared: int = 0
    """Decisions with both."""
    falsifiers_held: int = 0
    falsifiers_failed: int = 0
    phases: tuple[PhaseOutcome, ...] = ()
    """Those of the plan for which earlier sessions let expect a time."""
    claims: int = 0
    false_claims: int = 0
    """What the session said of itself, and what of it did not hold up."""


class MetricDifference(Record):
    """One metric of two sessions."""

    metric: Name
    before: float | None
    after: float | None
    difference: float | None
    """after − before; None where one is not known, or the two are of different things."""


class SessionComparison(Record):
    """Two sessions side by side."""

    before: SessionOutcome
    after: SessionOutcome
    rows: tuple[MetricDifference, ...]
    ratio: float | None = None
    """Final speedup of the second over that of the first."""
    interval: tuple[float, float] | None = None
    """The widest that both intervals allow."""
    why_not: str | None = None
    """Why there is no ratio."""


class SessionTrend(Record):
    """Sessions in the order in which they were opened, and what all of them took."""

    sessions: tuple[SessionOutcome, ...]
    minutes: float | None = None
    """Of those that say; None where none does."""
    timed: int = 0
    """How many say."""
    cost_usd: float | None = None
    priced: int = 0
    """How many say what they cost."""
