"""The decision program: the knowledge flattened to what deciding needs, as plain JSON.

A condition is a list. ``["is", metric, op, limit, source]`` compares a metric with a number or,
where ``limit`` is text, with another quantity; ``["all", …]``, ``["any", …]`` and ``["not", c]``
combine.
"""

from __future__ import annotations

from typing import Any, TypedDict

Condition = list[Any]
SCHEMA = 1
"""Raise it whenever the program's shape changes: caches of another shape are ignored."""


class MetricRow(TypedDict):
    """What deciding must know about a metric."""

    title: str
    unit: str
    low: float
    high: float | None
    level: str
    targets: list[str]
    flag: str | None
    recipe: str | None
    base: list[str]
    """What it is derived from, down to what a tool can collect; itself when not derived."""


class RecipeRow(TypedDict):
    """How to collect a group of metrics."""

    command: str
    cost: float
    target: str | None


class EstimateRow(TypedDict):
    """Which estimator, fed with what."""

    estimator: str
    inputs: dict[str, float | str]


class GainRow(TypedDict):
    """Which estimates, which of them to take, calibrated how."""

    kind: str
    take: str
    estimates: list[EstimateRow]


class LookAlikeRow(TypedDict):
    """Another bottleneck, and when it is that one instead."""

    bottleneck: str
    when: Condition
    because: str


class FalsifierRow(TypedDict):
    """What must move."""

    metric: str
    op: str
    value: float | str


class BottleneckRow(TypedDict):
    """One diagnosis, in evaluation order."""

    id: str
    group: str
    target: str
    title: str
    when: Condition
    unless: list[LookAlikeRow]
    weight: float
    gain: GainRow | None
    falsifier: FalsifierRow | None
    fixes: list[str]


class GuardRow(TypedDict):
    """When to keep quiet, and about what."""

    id: str
    target: str
    when: Condition
    bottlenecks: list[str]
    because: str


class QuestionRow(TypedDict):
    """One node of a gate tree."""

    when: Condition
    then: str
    otherwise: str
    unknown: str


class LeafRow(TypedDict):
    """Where a gate tree ends."""

    verdict: str
    because: str
    do: list[str]
    comes_first: bool


class TreeRow(TypedDict):
    """A gate tree."""

    root: str
    questions: dict[str, QuestionRow]
    leaves: dict[str, LeafRow]


class LevelRow(TypedDict):
    """What an evidence level allows."""

    can: list[list[Any]]
    """``[what to say, [metrics that it needs]]``."""
    cannot: list[str]


class Stamp(TypedDict):
    """Which knowledge this is."""

    version: str
    sha256: str
    overlay: str | None


class Hardware(TypedDict):
    """What the calculators know about GPUs: the fields of ``engine.model.device`` as they are."""

    common: dict[str, Any]
    architectures: dict[str, dict[str, Any]]
    """By compute capability."""
    devices: dict[str, dict[str, Any]]
    """By our id."""


class Program(TypedDict):
    """Everything that deciding needs."""

    schema: int
    knowledge: Stamp
    metrics: dict[str, MetricRow]
    derived: list[list[Any]]
    """``[metric, op, [operand, …]]`` in an order in which each uses only those before it."""
    raw_names: dict[str, list[Any]]
    """Per metric ``[[raw name, …], scale]`` in Nsight Compute's reports."""
    recipes: dict[str, RecipeRow]
    devices: dict[str, dict[str, float]]
    device_names: dict[str, str]
    """Lower-case name or alias to device id."""
    hardware: Hardware
    bottlenecks: list[BottleneckRow]
    guards: list[GuardRow]
    gate: TreeRow
    fixes: dict[str, dict[str, Any]]
    realised: dict[str, list[float]]
    """Share of a predicted saving that is realised: usually, and at worst."""
    effort: dict[str, float]
    """What a fix's rank is multiplied by, per bucket of minutes."""
    levels: dict[str, LevelRow]
    """``cuda/L1`` and the like."""
