"""Defines the types of the compiled rules: the knowledge, reduced to what a decision needs.

``kernelkb.graph.compile`` builds them, ``kernelkb.decide.rules_file`` writes and reads their cache.
Other modules of ``decide/`` import it only for type checking, to start faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypeAlias, TypedDict

from kernelkb.decide.conditions import (
    ComparisonTable,
    Condition,
    DerivedMetric,
    OpenCondition,
)

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import (
        Advice,
        KnowledgeStamp,
        LearnedFrom,
        MeasuredGain,
    )

Program: TypeAlias = "list[float | str]"
"""A formula as a postfix program, see ``kernelkb.model.entries.quantities``."""


class ResourceRow(TypedDict):
    """A resource of the model of the time: a metric, and the highest share that kernels reach."""

    id: str
    title: str
    group: str
    use: str
    peak: float | str


class TimeModelRow(TypedDict):
    """The model of the time: ``kernelkb.model.entries.fix.TimeModel``."""

    resources: list[ResourceRow]
    waits: dict[str, list[str | None]]
    """By reason, its metric and what its waiting follows."""
    fill: str
    warps: str
    duration: str
    empty_kernel: str
    empty_us: float
    clock: str
    widths: dict[str, float]
    """By coverage in percent, the width of an interval: ``model.entries.effect.ErrorModel``."""
    slope: float
    unseen: float


class EffectRow(TypedDict):
    """What a fix changes, as formulas of the metrics before it."""

    when: NotRequired[Condition]
    title: str
    parts: list[str]
    """Effects that it has at once."""
    work: dict[str, Program]
    """By resource."""
    add: dict[str, Program]
    waits: dict[str, Program]
    latency: Program | None
    fill: Program | None
    warps: Program | None
    time: Program | None
    lowers_floor: bool
    bounds_gain: bool
    conditional: bool
    error: float


class SignatureRow(TypedDict):
    """How a change that applies a fix is recognised; see ``ChangeSignature``."""

    added: str | None
    removed: str | None
    code: dict[str, str]
    finds_all: bool


class MeasuredCaseRow(TypedDict):
    """One measured change; see ``MeasuredCase``."""

    kernel: str
    fix: str
    bottleneck: str
    operation: str
    device: str
    speedup: float
    state: dict[str, float]


class MetricRow(TypedDict):
    """Unit, range, evidence level and recipe of a metric."""

    unit: str
    low: float
    high: float | None
    level: str
    targets: list[str]
    flag: str | None
    recipe: str | None


class RawNameRow(TypedDict):
    """The names of a metric in Nsight Compute's reports."""

    names: list[str]
    """Names on the raw page, the preferred one first."""
    scale: float
    """Factor from the raw value to the metric's unit."""
    titles: list[str]
    """``section/title`` on the details page."""
    rule_patterns: list[str]
    """Regular expressions, with a group ``number``, for the messages of ncu's own rules."""
    zero_is_value: bool
    """Whether a raw 0 is a value; if not, it means unknown."""


class RecipeRow(TypedDict):
    """The command that collects a group of metrics, and its cost in profiler passes."""

    command: str
    verb: str | None
    """The command of ``kb`` that does it for a kernel of the project; None: none does."""
    is_own: bool
    """Whether that is the command itself."""
    cost: float
    target: str | None
    covers: frozenset[str]
    """Recipes whose metrics this one collects, itself included."""


class LookAlikeRow(TypedDict):
    """Another bottleneck with the same symptoms, and the condition that tells them apart."""

    bottleneck: str
    when: Condition
    because: str


class FalsifierRow(TypedDict):
    """The comparison that must hold after a fix."""

    metric: str
    op: str
    value: float | str


class RequirementsRow(TypedDict):
    """What is needed to decide the condition of a bottleneck."""

    comparisons: list[int]
    """The comparisons of the condition, in its order."""
    untouched: OpenCondition
    """The condition while no quantity in it is known."""


class BottleneckRow(TypedDict):
    """One bottleneck; rows are in evaluation order."""

    id: str
    group: str
    target: str
    when: Condition
    hint: Condition | None
    """Speaks for it while ``when`` is unknown."""
    data: Condition | None
    """What of the inputs explains a match."""
    unless: list[LookAlikeRow]
    weight: float
    """Confidence of a match, 0 to 1, before unknown look-alikes lower it."""
    hint_weight: float
    """The same of a match by the hint."""
    falsifier: FalsifierRow | None
    fixes: list[str]
    symptom_of: list[str]
    """Bottlenecks that come first where they match with a gain."""
    comparisons: list[int]
    """Every comparison that its verdict depends on, including those of look-alikes."""
    requirements: RequirementsRow
    """What is needed to decide ``when``."""


class LineEvidenceRow(TypedDict):
    """What finds the lines of a bottleneck; see ``LineEvidence``."""

    count: str
    operations: list[str]
    without: list[str]
    producer: bool
    of: str


class GuardRow(TypedDict):
    """A condition that suppresses advice."""

    id: str
    target: str
    when: Condition
    bottlenecks: list[str]
    fixes: list[str]
    widen: float | None
    """Factor on the width of predicted intervals; None: unchanged."""
    because: str


class LibraryRow(TypedDict):
    """A library: the pattern of its kernels' names, and what can be changed at the call."""

    id: str
    title: str
    name_pattern: str
    advice: str


class FixRow(TypedDict):
    """One fix as it appears in an answer; it is left out of answers if ``applies`` is false."""

    advice: Advice
    measured: dict[str, MeasuredGain]
    """What it gave, by bottleneck; ``advice`` has that of all."""
    at_call: bool
    on_line: str | None
    """See ``Fix.on_line``."""
    undoes: list[str]
    recognised_by: SignatureRow | None
    applies: Condition
    effects: list[str]


class QuestionRow(TypedDict):
    """An inner node of a decision tree: its condition and its three branches."""

    when: Condition
    then: str
    otherwise: str
    unknown: str


class LeafRow(TypedDict):
    """A leaf of a decision tree."""

    verdict: str
    because: str
    do: list[str]
    comes_first: bool
    fixes: list[str]


class TreeRow(TypedDict):
    """A decision tree; questions and leaves by their ids."""

    root: str
    questions: dict[str, QuestionRow]
    leaves: dict[str, LeafRow]


class ClaimRow(TypedDict):
    """A conclusion, and the metrics that must be known for it."""

    say: str
    needs: list[str]


class LevelRow(TypedDict):
    """The conclusions that an evidence level allows, and those that it does not allow."""

    can: list[ClaimRow]
    cannot: list[str]


class CudaErrorRow(TypedDict):
    """One code of ``cudaError_t`` and ``CUresult``."""

    code: int
    names: list[str]
    text: str
    """What cudaGetErrorString returns."""


class SymptomRow(TypedDict):
    """The patterns that find one failure in a log, and its cause and cure."""

    id: str
    kind: str
    title: str
    severity: str
    log_patterns: list[str]
    unless: list[str]
    consequence_of: list[str]
    cause: str
    cure: str
    check: str
    fixes: list[str]
    pattern: str | None
    explain: str | None
    cuda_errors: list[CudaErrorRow]
    fallback: bool
    kind_only: bool


class HardwareTables(TypedDict):
    """Limits and peaks of GPUs for the calculators: the fields of ``model.entries.device``."""

    common: dict[str, Any]
    architectures: dict[str, dict[str, Any]]
    """By compute capability."""
    devices: dict[str, dict[str, Any]]
    """By device id."""


class CalibrationRow(TypedDict):
    """Calibration of one fix for one bottleneck on one architecture, from measured cases."""

    share: float
    """Share of a predicted gain that is realised: of the logarithm of the speedup."""
    learned: LearnedFrom
    """The measured cases, as they appear in an answer."""


class CompiledRules(TypedDict):
    """All data that a decision reads."""

    schema: int
    knowledge: KnowledgeStamp
    metrics: dict[str, MetricRow]
    derived: list[DerivedMetric]
    """In dependency order: each uses only measured metrics and derived ones before it."""
    collectors: dict[str, frozenset[str]]
    """For each measured metric, the recipes that collect it."""
    bases: dict[str, list[str]]
    """For each derived metric the measured metrics and device facts that it follows from."""
    raw_names: dict[str, RawNameRow]
    recipes: dict[str, RecipeRow]
    limits: dict[str, dict[str, float]]
    """For each ``limit.<threshold>``, its value by device id; ``""`` is any other device."""
    devices: dict[str, dict[str, float]]
    device_names: dict[str, str]
    """Lower-case name or alias to device id."""
    hardware: HardwareTables
    comparisons: ComparisonTable
    bottlenecks: dict[str, list[BottleneckRow]]
    """By target, in evaluation order."""
    line_evidence: dict[str, list[LineEvidenceRow]]
    """By bottleneck; those that lie in no line are left out."""
    guards: dict[str, list[GuardRow]]
    """By target."""
    trees: dict[str, TreeRow]
    fixes: dict[str, FixRow]
    cases: list[MeasuredCaseRow]
    """Measured changes that gained."""
    libraries: list[LibraryRow]
    time_model: TimeModelRow
    effects: dict[str, EffectRow]
    learned: dict[str, CalibrationRow]
    """By ``architecture/bottleneck/fix``, such as ``sm_90/spilling/reduce-live-range``."""
    effort: dict[str, float]
    """Rank factor of a fix by its class of minutes: ``5``, ``30``, ``120`` or ``480``."""
    levels: dict[str, LevelRow]
    """By target and evidence level, such as ``cuda/L1``."""
    symptoms: list[SymptomRow]
