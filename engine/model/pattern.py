"""Ways of working that sessions have proved, and where they contradict each other."""

from __future__ import annotations

from pydantic import Field

from kernelkb.model.base import Record, Slug


class Origin(Record):
    """A rule as the documents that KernelKB grew from gave it, and why ours differs."""

    rule: str
    number: str | None = None
    """Its number in those documents, where it had one."""
    refined_because: str | None = None
    """None where the rule stands as it was."""


class Conflict(Record):
    """Another pattern that advises otherwise."""

    pattern: Slug
    resolve: str
    """When to follow which."""


class Pattern(Record):
    """A way of working."""

    id: Slug
    title: str
    problem: str
    practice: str
    triggers: tuple[str, ...] = Field(min_length=1)
    """Situations in which to remember it."""
    steps: tuple[str, ...] = Field(min_length=1)
    refines: Slug | None = None
    """The pattern that this one corrects."""
    conflicts: tuple[Conflict, ...] = ()
    bottlenecks: tuple[Slug, ...] = ()
    """Diagnoses that it helps with."""
    origin: Origin | None = None
    sources: tuple[Slug, ...] = Field(min_length=1)
