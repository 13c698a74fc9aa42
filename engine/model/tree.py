"""Gates: a tree of questions whose leaves are verdicts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engine.model.base import Record, Slug
from engine.model.condition import Condition


class Question(Record):
    """One node: where to go when its condition is true, false, or cannot be known."""

    id: Slug
    ask: str
    when: Condition
    then: Slug
    otherwise: Slug
    unknown: Slug


class Leaf(Record):
    """Where a walk ends."""

    id: Slug
    verdict: Literal["stop", "caution", "continue", "done"]
    because: str
    do: tuple[str, ...] = Field(min_length=1)
    """What comes next, in order."""
    comes_first: bool = False
    """Whether that comes before any fix, because no fix means anything until it is done."""


class Tree(Record):
    """A tree of questions. The walk starts at ``root`` and always ends."""

    id: Slug
    title: str
    root: Slug
    budget_min: float = Field(gt=0)
    """Minutes that somebody should need to get through it."""
    questions: tuple[Question, ...] = Field(min_length=1)
    leaves: tuple[Leaf, ...] = Field(min_length=1)
    sources: tuple[Slug, ...] = Field(min_length=1)
