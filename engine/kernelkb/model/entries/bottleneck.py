"""Defines the records of bottlenecks, guards and the conclusions of evidence levels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelkb.model.base import EvidenceLevel, Name, Quantity, Record, Slug, Target
from kernelkb.model.entries.condition import Condition, Op
from kernelkb.model.entries.source_line import LineEvidence

Group = Literal[
    "correctness",
    "build",
    "measurement",
    "system",
    "parallelism",
    "latency",
    "memory-traffic",
    "memory-transactions",
    "compute",
    "terminal",
]
"""In evaluation order."""


class LookAlike(Record):
    """Another bottleneck with the same first symptoms; if ``when`` is true, it is the cause."""

    bottleneck: Slug
    when: Condition
    because: str


class Falsifier(Record):
    """What must hold after a fix; if it does not, the diagnosis was wrong: revert the change."""

    metric: Name
    op: Op
    value: float | Quantity
    """A number, a quantity, or the metric itself, which means its value before the change."""


class Case(Record):
    """Metrics and the verdict that they must give. The tests run every case."""

    name: str
    metrics: dict[Quantity, float]
    verdict: Literal["matches", "excluded", "unknown"]


class Bottleneck(Record):
    """One cause of slowness, with its condition, look-alikes, falsifier and fixes."""

    id: Slug
    title: str
    group: Group
    target: Target
    level: EvidenceLevel
    """The lowest evidence level at which it may be concluded."""
    definition: str
    when: Condition
    unless: tuple[LookAlike, ...] = ()
    symptom_of: tuple[Slug, ...] = ()
    """Bottlenecks that cause what it shows: where one of them matches with a gain, it comes first.
    """
    evidence: Literal["direct", "derived", "coarse", "pattern"]
    """How directly the condition shows the mechanism, from a counter of it to a mere hint."""
    falsifier: Falsifier | None = None
    confirm: str
    """How a person can confirm it."""
    lines: tuple[LineEvidence, ...] = ()
    """What finds its lines in a report; the first of which anything was counted. Empty: it lies in
    no line."""
    fixes: tuple[Slug, ...] = Field(min_length=1)
    """In the order to try them."""
    architecture_notes: str | None = None
    cases: tuple[Case, ...] = Field(min_length=2)
    sources: tuple[Slug, ...] = Field(min_length=1)


class Guard(Record):
    """A condition under which certain advice is suppressed, because it would be wrong."""

    id: Slug
    target: Target
    when: Condition
    groups: tuple[Group, ...] = ()
    bottlenecks: tuple[Slug, ...] = ()
    except_: tuple[Slug, ...] = Field(default=(), alias="except")
    fixes: tuple[Slug, ...] = ()
    """Fixes to suppress in every diagnosis."""
    widen: float | None = Field(default=None, gt=1)
    """Factor on the width of predicted intervals, to both sides; None: unchanged."""
    because: str
    sources: tuple[Slug, ...] = Field(min_length=1)


class Claim(Record):
    """A conclusion that is allowed once the metrics that it needs are known."""

    say: str
    needs: tuple[Name, ...] = Field(min_length=1)


class LevelLimits(Record):
    """The conclusions that one evidence level allows, and those that it does not allow."""

    level: EvidenceLevel
    target: Target
    can: tuple[Claim, ...]
    cannot: tuple[str, ...]
    sources: tuple[Slug, ...] = Field(min_length=1)


class GuardCatalogue(Record):
    """The file ``guards.yaml``."""

    guards: tuple[Guard, ...] = ()
    levels: tuple[LevelLimits, ...] = ()
