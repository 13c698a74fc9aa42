"""Trees of questions whose leaves are verdicts, or point to where to look."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelkb.model.base import Name, Quantity, Record, Slug
from kernelkb.model.condition import Condition
from kernelkb.model.pattern import Origin


class Question(Record):
    """One node: where to go when its condition is true, false, or cannot be known."""

    id: Slug
    ask: str
    when: Condition
    then: Slug
    otherwise: Slug
    unknown: Slug
    origin: Origin | None = None


class LeadsTo(Record):
    """What a leaf points to in the rest of the knowledge."""

    bottlenecks: tuple[Slug, ...] = ()
    symptoms: tuple[Slug, ...] = ()
    patterns: tuple[Slug, ...] = ()
    metrics: tuple[Name, ...] = ()
    """To measure before anything can be said."""


class Leaf(Record):
    """Where a walk ends."""

    id: Slug
    verdict: Literal["stop", "caution", "continue", "done", "diagnose", "measure"]
    """The first four judge whether to go on; the others say where to look."""
    because: str
    do: tuple[str, ...] = Field(min_length=1)
    """What comes next, in order."""
    comes_first: bool = False
    """Whether that comes before any fix, because no fix means anything until it is done."""
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
    """Minutes that somebody should need to get through it."""
    questions: tuple[Question, ...] = Field(min_length=1)
    leaves: tuple[Leaf, ...] = Field(min_length=1)
    cases: tuple[TreeCase, ...] = Field(min_length=1)
    sources: tuple[Slug, ...] = Field(min_length=1)
