"""The decision program: the knowledge flattened to what deciding needs, as plain JSON.

A condition is the number of a leaf in the table of comparisons, or a list: ``["all", …]``,
``["any", …]`` and ``["not", c]`` combine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

if TYPE_CHECKING:
    from kernelkb.model.recommendation import Advice, KnowledgeStamp, LearnedFrom

FlatCondition = Any


class LeafTable(TypedDict):
    """Every comparison that the knowledge makes, each once."""

    rows: list[list[Any]]
    """``[metric, op, limit, source]``; a limit that is text names another quantity, and a source
    is a position in ``sources``."""
    by_metric: dict[str, list[list[Any]]]
    """For each metric that stands left ``[op, [leaf, …], [limit, …]]`` for each operator."""
    needs: list[list[str]]
    """For each leaf the metrics that a tool has to collect for it."""
    collected_by: list[int]
    """For each leaf the recipes, as bits, that collect all of these."""
    touches: dict[str, list[int]]
    """For each quantity the leaves that it has a part in."""
    sources: list[str]
    notes: dict[str, str]
    """For a source that names a limit which is not as it was shipped, whose it is."""


class MetricRow(TypedDict):
    """What deciding must know about a metric."""

    unit: str
    low: float
    high: float | None
    level: str
    targets: list[str]
    flag: str | None
    recipe: str | None


class RecipeRow(TypedDict):
    """How to collect a group of metrics."""

    command: str
    cost: float
    target: str | None
    collects: int
    """One bit for each recipe, in their order, whose metrics this one collects too."""


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
    when: FlatCondition
    because: str


class FalsifierRow(TypedDict):
    """What must move."""

    metric: str
    op: str
    value: float | str


class RequirementsRow(TypedDict):
    """What asking for more comes to while nothing is known about a condition."""

    leaves: list[int]
    false: int
    """Recipes, as bits, that could make it false."""
    true: int
    asks: list[str]
    """Metrics that a tool can collect for it."""


class BottleneckRow(TypedDict):
    """One diagnosis, in evaluation order."""

    id: str
    group: str
    target: str
    when: FlatCondition
    unless: list[LookAlikeRow]
    weight: float
    gain: GainRow | None
    falsifier: FalsifierRow | None
    fixes: list[str]
    leaves: list[int]
    """Every comparison that its verdict rests on, those of look-alikes too."""
    hint: RequirementsRow


class GuardRow(TypedDict):
    """When to keep quiet, and about what."""

    id: str
    target: str
    when: FlatCondition
    bottlenecks: list[str]
    fixes: list[str]
    widen: float | None
    because: str


class FixRow(TypedDict):
    """One change: how an answer says it, and when it is offered at all."""

    advice: Advice
    applies: NotRequired[FlatCondition]


class QuestionRow(TypedDict):
    """One node of a gate tree."""

    when: FlatCondition
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


class SymptomRow(TypedDict):
    """How one failure shows in a log."""

    id: str
    kind: str
    title: str
    says: list[str]
    unless: list[str]
    cause: str
    cure: str
    check: str
    fixes: list[str]
    pattern: str | None
    weighs: str | None


class HardwareTables(TypedDict):
    """What the calculators know about GPUs: the fields of ``kernelkb.model.device`` as they are."""

    common: dict[str, Any]
    architectures: dict[str, dict[str, Any]]
    """By compute capability."""
    devices: dict[str, dict[str, Any]]
    """By our id."""


class CalibrationRow(TypedDict):
    """What sessions taught about a fix for a bottleneck on an architecture."""

    share: list[float]
    """Of an estimated saving that is realised: usually, at worst, and at best."""
    learned: LearnedFrom
    """The cases behind it, as an answer shows them."""


class CompiledRules(TypedDict):
    """Everything that deciding needs."""

    schema: int
    knowledge: KnowledgeStamp
    metrics: dict[str, MetricRow]
    derived: list[list[Any]]
    """``[metric, op, [operand, …], [operands that are quantities]]`` in an order in which each
    uses only those before it."""
    collectors: dict[str, int]
    """For each metric that tools collect the recipes, as bits, that do."""
    bases: dict[str, list[str]]
    """For each derived metric what it comes down to: metrics that a tool collects, device facts."""
    raw_names: dict[str, list[Any]]
    """Per metric ``[[raw name, …], scale, [section/title, …], whether 0 is a value]`` in Nsight
    Compute's reports."""
    recipes: dict[str, RecipeRow]
    limits: dict[str, dict[str, float]]
    """``limit.<threshold>`` by device, and for any other device under ``""``."""
    devices: dict[str, dict[str, float]]
    device_names: dict[str, str]
    """Lower-case name or alias to device id."""
    hardware: HardwareTables
    comparisons: LeafTable
    bottlenecks: dict[str, list[BottleneckRow]]
    """By target, in evaluation order."""
    guards: dict[str, list[GuardRow]]
    """By target."""
    trees: dict[str, TreeRow]
    fixes: dict[str, FixRow]
    realised: dict[str, list[float]]
    """Share of a predicted saving that is realised: usually, and at worst."""
    learned: dict[str, CalibrationRow]
    """By ``architecture/bottleneck/fix``, such as ``sm_90/spilling/reduce-live-range``; comes
    before ``realised``."""
    effort: dict[str, float]
    """What a fix's rank is multiplied by, per bucket of minutes."""
    levels: dict[str, LevelRow]
    """``cuda/L1`` and the like."""
    symptoms: list[SymptomRow]
