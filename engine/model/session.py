"""A session: one sitting at one kernel, as people review it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from engine.model.base import Name, Record, Slug, Target

SessionId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=80)]
"""Names the file: a date and the kernel, so that ids sort by day."""


class Step(Record):
    """One gate of the loop."""

    name: str
    variant: Slug | None = None
    status: Literal["ok", "warning", "failure"]
    found: str
    seconds: float
    cure: str | None = None


class Decision(Record):
    """What was recommended, what was tried, and what came of it."""

    bottleneck: Slug
    fix: Slug
    applied_as: str | None = None
    """The variant that applied it; None when nobody tried."""
    predicted: tuple[float, float, float] | None = None
    """Speedup low, point, high."""
    measured: float | None = None
    interval: tuple[float, float] | None = None
    falsifier: str | None = None
    """Which metric had to move, and whether it did."""


class Entry(Record):
    """One appended record: a triage run, or what somebody learnt."""

    session: SessionId
    at: datetime
    goal: str
    kernel: Name | None = None
    variant: Slug | None = None
    target: Target | None = None
    machine: str | None = None
    steps: tuple[Step, ...] = ()
    metrics: dict[Name, float] = Field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    went_wrong: tuple[str, ...] = ()
    went_right: tuple[str, ...] = ()
    pattern_candidates: tuple[str, ...] = ()
    cost_usd: float | None = Field(default=None, ge=0)
