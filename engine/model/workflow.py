"""The way through one kernel: phases, the gates between them, and when to stop."""

from __future__ import annotations

from pydantic import Field

from kernelkb.model.base import Record, Slug
from kernelkb.model.pattern import Origin


class WorkflowGate(Record):
    """Something that must be true before the next step is worth its time."""

    id: Slug
    check: str
    passes: str
    """What counts as passed."""
    otherwise: str
    """What to do when it does not pass."""
    command: str | None = None
    tree: Slug | None = None
    """The tree that decides it."""
    patterns: tuple[Slug, ...] = ()
    origin: Origin | None = None


class Phase(Record):
    """One part of the work, with the time that it may take."""

    id: Slug
    title: str
    goal: str
    budget_min: float = Field(gt=0)
    gates: tuple[WorkflowGate, ...] = Field(min_length=1)


class StopRule(Record):
    """When to stop, whatever was planned."""

    id: Slug
    when: str
    do: str
    origin: Origin | None = None


class Precheck(Record):
    """One thing to look at before a session on a GPU begins."""

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
