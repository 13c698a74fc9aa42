"""Defines decision trees: questions about metrics whose leaves are verdicts with next steps."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelkb.model.base import Name, Quantity, Record, Slug
from kernelkb.model.entries.condition import Condition
from kernelkb.model.entries.workflow import Origin


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
