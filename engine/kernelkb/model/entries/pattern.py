"""Defines patterns: ways of working, with triggers and conflicts (``knowledge/patterns/``)."""

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
