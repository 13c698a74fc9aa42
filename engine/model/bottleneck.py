"""One cause of slowness: what shows it, what resembles it, what it costs, what cures it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelkb.model.base import EvidenceLevel, GainKind, Name, Quantity, Record, Slug, Target
from kernelkb.model.condition import Condition, Op

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
"""In evaluation order. Mechanisms of one group remove the same cycles: their gains never add."""


class LookAlike(Record):
    """Another cause with the same first symptoms; when its condition holds, it is that one."""

    bottleneck: Slug
    when: Condition
    because: str


class Estimate(Record):
    """One estimator and what it is fed."""

    estimator: Slug
    inputs: dict[Name, Quantity | float] = Field(default_factory=dict)


class Gain(Record):
    """What curing the bottleneck would save."""

    kind: GainKind
    take: Literal["smallest", "largest", "first"] = "smallest"
    """Of several estimates; those whose inputs are unknown do not count."""
    estimates: tuple[Estimate, ...] = Field(min_length=1)


class Falsifier(Record):
    """What must move if the diagnosis was right; if it does not, revert the change."""

    metric: Name
    op: Op
    value: float | Quantity
    """A number, a quantity, or the metric itself: then its value before the change."""


class Case(Record):
    """Metrics and the verdict that they must give. The tests run every case."""

    name: str
    metrics: dict[Quantity, float]
    verdict: Literal["matches", "excluded", "unknown"]


class Bottleneck(Record):
    """One diagnosis that the engine can make."""

    id: Slug
    title: str
    group: Group
    target: Target
    level: EvidenceLevel
    """The lowest evidence level at which it may be concluded."""
    definition: str
    when: Condition
    unless: tuple[LookAlike, ...] = ()
    evidence: Literal["direct", "derived", "coarse", "pattern"]
    """How close the condition is to the mechanism: a counter of it, an inference, a hint."""
    gain: Gain | None = None
    falsifier: Falsifier | None = None
    confirm: str
    """What a person looks at to be sure."""
    fixes: tuple[Slug, ...] = Field(min_length=1)
    """In the order to try them."""
    architecture_notes: str | None = None
    cases: tuple[Case, ...] = Field(min_length=2)
    sources: tuple[Slug, ...] = Field(min_length=1)


class Guard(Record):
    """A situation in which certain advice would be wrong, however well its condition fits."""

    id: Slug
    target: Target
    when: Condition
    groups: tuple[Group, ...] = ()
    bottlenecks: tuple[Slug, ...] = ()
    except_: tuple[Slug, ...] = Field(default=(), alias="except")
    fixes: tuple[Slug, ...] = ()
    """Withheld from whatever diagnosis would offer them."""
    widen: float | None = Field(default=None, gt=1)
    """Predicted savings become this many times less certain, to both sides."""
    because: str
    sources: tuple[Slug, ...] = Field(min_length=1)


class Claim(Record):
    """Something that may be said, once what it needs was measured."""

    say: str
    needs: tuple[Name, ...] = Field(min_length=1)


class LevelLimits(Record):
    """What one evidence level allows somebody to say."""

    level: EvidenceLevel
    target: Target
    can: tuple[Claim, ...]
    cannot: tuple[str, ...]
    sources: tuple[Slug, ...] = Field(min_length=1)


class GuardCatalogue(Record):
    """The file ``guards.yaml``."""

    guards: tuple[Guard, ...] = ()
    levels: tuple[LevelLimits, ...] = ()
