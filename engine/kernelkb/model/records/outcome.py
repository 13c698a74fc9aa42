"""Defines the success metrics of a session."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from kernelkb.model.base import Name, Record, SessionId, Slug, Target


class AchievedSpeedup(Record):
    """A measured speedup, with the kernel, machine, variant and workload that it holds for."""

    speedup: float
    """Time of the baseline ÷ time of the variant."""
    interval: tuple[float, float] | None = None
    """None if the record has none."""
    kernel: Name | None = None
    target: Target | None = None
    machine: str | None = None
    variant: Slug | None = None
    baseline: str | None = None
    workload: str | None = None
    checked: bool = False
    """Whether a check found the same code correct."""


class PhaseOutcome(Record):
    """The predicted and the actual minutes of one phase of a plan."""

    phase: Slug
    predicted_min: tuple[float, float, float]
    """Minutes: low, point, high; low to high covers 80 %."""
    minutes: float | None
    """Actual minutes; None if no part of it was logged."""
    inside: bool | None
    """Whether ``minutes`` lies within low and high; None if unknown."""


class SessionOutcome(Record):
    """The success metrics of one session. None means unknown, never zero."""

    session: SessionId
    opened: datetime
    kind: Literal["recorded", "reported"]
    goal: str
    kernel: Name | None = None
    """None if the session had several."""
    minutes: float | None = None
    """Total: work, and pauses of less than an hour if the steps have times."""
    worked: bool = False
    """Whether some code was built and then found correct."""
    minutes_to_build: float | None = None
    """Minutes until a check first found built code correct."""
    bottleneck: Slug | None = None
    """The first bottleneck of the first recommendation that has one."""
    minutes_to_bottleneck: float | None = None
    changes: int | None = None
    """Versions of the code built after the first one. A return to an earlier one is no change."""
    blind_changes: int | None = None
    """Changes without a profile since the last one, except those that repair a wrong result."""
    judged_changes: int | None = None
    """Changes for which the record shows whether they were wrong."""
    wrong_changes: int | None = None
    """Changes whose check failed, or that were slower by the whole interval. None if there were
    changes and none could be judged."""
    final: AchievedSpeedup | None = None
    """The last valid bench; a bench of code whose check failed is not valid."""
    best: AchievedSpeedup | None = None
    """The fastest valid bench with the kernel, target, machine, workload and baseline of
    ``final``."""
    cost_usd: float | None = None
    decisions: int = 0
    predicted: int = 0
    """Decisions with a prediction."""
    measured: int = 0
    """Decisions whose gain was measured."""
    inside: int = 0
    """Decisions whose measured gain lies inside the predicted interval."""
    compared: int = 0
    """Decisions with a predicted interval and a measured gain."""
    falsifiers_held: int = 0
    falsifiers_failed: int = 0
    phases: tuple[PhaseOutcome, ...] = ()
    """Phases of the plan with predicted minutes."""
    claims: int = 0
    """Statements of the session about itself."""
    false_claims: int = 0
    """Claims that were found false."""
