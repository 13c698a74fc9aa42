"""Defines patterns, which are ways of working, and the phases, gates and stop rules of work."""

from __future__ import annotations

from pydantic import Field

from kernelkb.model.base import Evidence, Record, Slug


class Origin(Record):
    """The rule of an older document from which an entry stems, and why the entry differs."""

    rule: str
    """Text of the rule in that document."""
    number: str | None = None
    """Its number there; None if it had none."""
    refined_because: str | None = None
    """Why the entry differs; None if it does not."""


class Conflict(Record):
    """Another pattern with contradicting advice."""

    pattern: Slug
    resolve: str
    """When to follow which of the two."""


class Pattern(Record):
    """A way of working on a kernel."""

    id: Slug
    title: str
    problem: str
    """What goes wrong without it."""
    practice: str
    """What to do instead."""
    triggers: tuple[str, ...] = Field(min_length=1)
    """Situations in which it applies."""
    steps: tuple[str, ...] = Field(min_length=1)
    """Instructions, in order."""
    refines: Slug | None = None
    """The pattern that this one replaces or narrows; None for an independent one."""
    conflicts: tuple[Conflict, ...] = ()
    bottlenecks: tuple[Slug, ...] = ()
    """Bottlenecks that it helps to diagnose or to fix."""
    origin: Origin | None = None
    evidence: Evidence = "judgement"
    """What stands behind the practice; ``sources`` has to hold one of that kind."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class WorkflowGate(Record):
    """A condition that must hold before the next phase starts."""

    id: Slug
    check: str
    """What to look at."""
    passes: str
    """The result that passes."""
    otherwise: str
    """What to do when it does not pass."""
    command: str | None = None
    """The kb command that shows it; None if there is none."""
    tree: Slug | None = None
    """The decision tree that evaluates it; None if a person does."""
    patterns: tuple[Slug, ...] = ()
    origin: Origin | None = None


class Phase(Record):
    """One part of the work, with its time budget."""

    id: Slug
    title: str
    goal: str
    budget_min: float = Field(gt=0)
    """Minutes."""
    gates: tuple[WorkflowGate, ...] = Field(min_length=1)


class StopRule(Record):
    """A condition under which to stop, even if the plan is not finished."""

    id: Slug
    when: str
    do: str
    origin: Origin | None = None


class Precheck(Record):
    """One thing to check before a session on a GPU starts."""

    id: Slug
    check: str
    command: str | None = None
    patterns: tuple[Slug, ...] = ()


class Workflow(Record):
    """The file ``workflow.yaml``."""

    phases: tuple[Phase, ...] = Field(min_length=1)
    stop_rules: tuple[StopRule, ...] = Field(min_length=1)
    preflight: tuple[Precheck, ...] = Field(min_length=1)
    sources: tuple[Slug, ...] = Field(min_length=1)
