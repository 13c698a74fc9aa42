"""Defines the record of a session: plan, entries with steps and decisions, and what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from kernelkb.model.base import MeasurementId, Name, Record, SessionId, Slug, Target
from kernelkb.model.records.measurement import Verdict

PlanKind = Literal["baseline", "optimize"]


class Step(Record):
    """One step of the loop and its result."""

    name: str
    """``environment``, ``build``, ``check``, ``bench``, ``gate``, ``profile``,
    ``recommend``, ``compare``, ``tune``."""
    variant: Slug | None = None
    status: Literal["ok", "warning", "failure"]
    found: str
    """The result in one sentence."""
    seconds: float
    """Duration without waiting for the device. 0 in a reported session, where it is unknown."""
    cure: str | None = None
    symptom: Slug | None = None
    """The entry of the knowledge that explains a failed check."""
    at: datetime | None = None
    """When the step began."""
    sources: str | None = None
    """Digest of the variant's source files; it shows whether the code changed between two steps."""
    measurement: MeasurementId | None = None
    verdict: Verdict | None = None
    """Verdict of a bench; the next four fields are its numbers."""
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    baseline: str | None = None
    """Name of the baseline of a bench."""
    workload: str | None = None
    """Name of the workload that a bench timed."""
    bottleneck: Slug | None = None
    """The first bottleneck that a recommendation names."""


class Decision(Record):
    """A recommended fix, whether it was applied, and its predicted and measured gain."""

    bottleneck: Slug
    fix: Slug
    applied_as: str | None = None
    """The variant that applied it; None when it was not applied."""
    predicted: tuple[float, float, float] | None = None
    """Speedup low, point, high."""
    predicted_by: Literal["effects"] | None = None
    """The model that predicted it; None in records of older versions, whose estimators are gone:
    how far those were wrong says nothing about the effects of today."""
    calibration: float | None = None
    """Share of the model's gain that ``predicted`` used; see ``LearnedFix``."""
    measured: float | None = None
    interval: tuple[float, float] | None = None
    falsifier: str | None = None
    """The comparison that had to become true, with the value after the change."""
    falsifier_held: bool | None = None
    """Whether it became true; None where the metric was not measured after the change."""
    falsifier_could_fail: bool | None = None
    """Whether it was false before the change; None in older records, which do not tell. Only then
    is it evidence."""
    together: tuple[Slug, ...] = ()
    """Other fixes that the same variant applied; ``measured`` is the gain of all of them."""


class SessionClaim(Record):
    """A statement of a session about itself, and whether it is true."""

    said: str
    held: bool | None
    """None where it cannot be decided."""
    why: str
    source: str | None = None


class ChecklistMark(Record):
    """What a person says of an item of the checklist."""

    item: Slug
    """Id of a gate, or of a check before the session."""
    passed: bool | None = None
    """None: only noted."""
    note: str | None = None


class SessionEntry(Record):
    """One appended record: the steps of a command, or a retrospective."""

    session: SessionId
    at: datetime
    goal: str
    by: str | None = None
    """The command that logged it, such as ``triage``; None for a person."""
    kernel: Name | None = None
    variant: Slug | None = None
    target: Target | None = None
    machine: str | None = None
    device: Slug | None = None
    """Id of the GPU in the knowledge."""
    cc: str | None = None
    """Compute capability of the GPU, such as ``9.0``; None on a CPU."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Versions of driver, compiler, torch and operating system."""
    steps: tuple[Step, ...] = ()
    metrics: dict[Name, float] = Field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    went_wrong: tuple[str, ...] = ()
    went_right: tuple[str, ...] = ()
    pattern_candidates: tuple[str, ...] = ()
    claims: tuple[SessionClaim, ...] = ()
    marks: tuple[ChecklistMark, ...] = ()
    cost_usd: float | None = Field(default=None, ge=0)
    minutes: float | None = Field(default=None, ge=0)
    """Duration, where the steps do not give it."""
    closes: bool = False
    """Whether this entry ends the session."""


class PlannedPhase(Record):
    """One phase of a plan, with its time budget."""

    phase: Slug
    gates: tuple[Slug, ...]
    budget_min: float
    predicted_min: tuple[float, float, float] | None = None
    """Minutes (low, point, high) learned from earlier sessions; None before there are any."""


class SessionBudget(Record):
    """What a session may spend; None: no limit."""

    attempts: int | None = Field(default=None, ge=1)
    minutes: float | None = Field(default=None, gt=0)
    device_seconds: float | None = Field(default=None, gt=0)
    """Of checks, benches and profiles."""


class Session(Record):
    """A file of ``sessions/``: its goal, its plan, and all entries in order."""

    session: SessionId
    opened: datetime
    goal: str
    kernel: Name | None = None
    kind: Literal["recorded", "reported"] = "recorded"
    """reported: written afterwards from an account; it does not count as evidence."""
    plan: PlanKind | None = None
    phases: tuple[PlannedPhase, ...] = ()
    budget: SessionBudget | None = None
    source: str | None = None
    """Source of a reported session."""
    entries: tuple[SessionEntry, ...] = ()

    @property
    def is_closed(self) -> bool:
        """Whether an entry ended it."""
        return any(entry.closes for entry in self.entries)


class SessionSummary(Record):
    """One row of the list of sessions."""

    session: SessionId
    state: Literal["current", "open", "closed", "unreadable"]
    """current: commands log to it. unreadable: its file is invalid."""
    kernel: Name | None = None
    opened: datetime | None = None
    goal: str | None = None


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
