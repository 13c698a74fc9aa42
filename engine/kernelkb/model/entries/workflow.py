"""Defines the records of workflow.yaml: phases of optimising a kernel, gates and stop rules."""

from __future__ import annotations

from pydantic import Field

from kernelkb.model.base import Record, Slug
from kernelkb.model.entries.pattern import Origin


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
