"""Defines the workflow, patterns and decision trees."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelkb.model.base import Evidence, Name, Quantity, Record, Slug
from kernelkb.model.entries.bottleneck import Condition


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


class Question(Record):
    """One inner node: a condition, and the next node if it is true, false or unknown."""

    id: Slug
    ask: str
    when: Condition
    then: Slug
    otherwise: Slug
    unknown: Slug
    origin: Origin | None = None


class LeadsTo(Record):
    """The entries of the knowledge to which a leaf refers."""

    bottlenecks: tuple[Slug, ...] = ()
    symptoms: tuple[Slug, ...] = ()
    patterns: tuple[Slug, ...] = ()
    metrics: tuple[Name, ...] = ()
    """Metrics to measure before a decision is possible."""
    fixes: tuple[Slug, ...] = ()
    """Changes, the best first."""


class Leaf(Record):
    """An end of a tree: the verdict, its reason and the next steps."""

    id: Slug
    verdict: Literal["stop", "caution", "continue", "done", "diagnose", "measure"]
    """The first four decide whether to continue; the others name what to look at or measure."""
    because: str
    do: tuple[str, ...] = Field(min_length=1)
    """Next steps, in order."""
    comes_first: bool = False
    """Whether they come before any fix, because no fix can be evaluated until they are done."""
    leads_to: LeadsTo | None = None
    origin: Origin | None = None


class TreeCase(Record):
    """Metrics, and the leaf that a walk with them must end at. The tests run every case."""

    metrics: dict[Quantity, float]
    leaf: Slug


class Tree(Record):
    """A tree of questions. The walk starts at ``root`` and always ends."""

    id: Slug
    title: str
    root: Slug
    budget_min: float = Field(gt=0)
    """Minutes that a person should need to complete it."""
    questions: tuple[Question, ...] = Field(min_length=1)
    leaves: tuple[Leaf, ...] = Field(min_length=1)
    cases: tuple[TreeCase, ...] = Field(min_length=1)
    sources: tuple[Slug, ...] = Field(min_length=1)
