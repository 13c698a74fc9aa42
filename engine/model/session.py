"""A session: one sitting at one kernel, as people review it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from kernelkb.model.base import Name, Record, Slug, Target
from kernelkb.model.measurement import Verdict
from kernelkb.model.review import Review

SessionId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=80)]
"""Names the file: a date and the kernel, so that ids sort by day."""

MeasurementId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""Of a record in the measurement database: a hash of all that it says."""

PlanKind = Literal["baseline", "optimize"]


class Step(Record):
    """One gate of the loop, as it went."""

    name: str
    """What was done: ``environment``, ``build``, ``check``, ``bench``, ``gate``, ``profile``,
    ``recommend``, ``compare``, ``tune``."""
    variant: Slug | None = None
    status: Literal["ok", "warning", "failure"]
    found: str
    seconds: float
    """Of work. 0 in a reported session: the account does not say."""
    cure: str | None = None
    at: datetime | None = None
    """When it began."""
    sources: str | None = None
    """Digest of the files that the variant is made of: what changed between two steps shows."""
    measurement: MeasurementId | None = None
    verdict: Verdict | None = None
    """Of a bench, with the numbers that it rests on."""
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    baseline: str | None = None
    """What a bench timed it next to."""
    workload: str | None = None
    """Name of the workload that a bench timed."""
    bottleneck: Slug | None = None
    """Which one a recommendation names first."""


class Decision(Record):
    """What was recommended, what was tried, and what came of it."""

    bottleneck: Slug
    fix: Slug
    applied_as: str | None = None
    """The variant that applied it; None when nobody tried."""
    predicted: tuple[float, float, float] | None = None
    """Speedup low, point, high."""
    calibration: float | None = None
    """The share of the estimated saving that ``predicted`` took for granted; see ``Learned``."""
    measured: float | None = None
    interval: tuple[float, float] | None = None
    falsifier: str | None = None
    """The comparison that had to become true, with the value after the change."""
    falsifier_held: bool | None = None
    """Whether it became true; None where the metric was not measured after the change."""
    together: tuple[Slug, ...] = ()
    """Other fixes that the same variant applied: ``measured`` is of all of them."""


class SessionClaim(Record):
    """Something that a session said of itself, and whether it holds up."""

    said: str
    held: bool | None
    """None where nobody can say."""
    why: str
    source: str | None = None


class SessionEntry(Record):
    """One appended record: what a tool did, or what somebody learnt."""

    session: SessionId
    at: datetime
    goal: str
    by: str | None = None
    """The verb that logged it, such as ``triage``; None for a person."""
    kernel: Name | None = None
    variant: Slug | None = None
    target: Target | None = None
    machine: str | None = None
    device: Slug | None = None
    """Our id of the GPU."""
    cc: str | None = None
    """Compute capability of the GPU, such as ``9.0``; None on a CPU."""
    environment: dict[str, str] = Field(default_factory=dict)
    """What the numbers depend on: driver, compiler, torch, operating system."""
    steps: tuple[Step, ...] = ()
    metrics: dict[Name, float] = Field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    went_wrong: tuple[str, ...] = ()
    went_right: tuple[str, ...] = ()
    pattern_candidates: tuple[str, ...] = ()
    claims: tuple[SessionClaim, ...] = ()
    reviews: tuple[Review, ...] = ()
    """What an expert said of the session's decisions; its ``by`` is ``review``."""
    cost_usd: float | None = Field(default=None, ge=0)
    minutes: float | None = Field(default=None, ge=0)
    """How long it took, where the steps do not say."""
    closes: bool = False
    """It ends the session."""


class PlannedPhase(Record):
    """One phase of a plan, with what it may take."""

    phase: Slug
    gates: tuple[Slug, ...]
    budget_min: float
    predicted_min: tuple[float, float, float] | None = None
    """Low, point, high, by what earlier sessions took; None before there are any."""


class Session(Record):
    """A file of ``sessions/``: what it was for, and all its entries in their order."""

    session: SessionId
    opened: datetime
    goal: str
    kernel: Name | None = None
    kind: Literal["recorded", "reported"] = "recorded"
    """reported: written down afterwards from somebody's account; it is no evidence."""
    plan: PlanKind | None = None
    phases: tuple[PlannedPhase, ...] = ()
    source: str | None = None
    """Where a reported session is from."""
    entries: tuple[SessionEntry, ...] = ()

    @property
    def is_closed(self) -> bool:
        """Whether an entry ended it."""
        return any(entry.closes for entry in self.entries)


class SessionSummary(Record):
    """A session of a project, in a line."""

    session: SessionId
    state: Literal["current", "open", "closed", "unreadable"]
    """current: what is measured now is logged there; unreadable: there is a mistake in its file."""
    kernel: Name | None = None
    opened: datetime | None = None
    goal: str | None = None
