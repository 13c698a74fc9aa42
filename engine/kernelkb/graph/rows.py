"""Builds rows of the compiled rules: conditions, and what is known of fixes and their effects."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import TypeVar, cast

from kernelkb.decide.conditions import (
    Combination,
    ComparisonTable,
    CompiledComparison,
    Condition,
    DecidingRecipes,
)
from kernelkb.decide.next_measurement import (
    build_untouched_condition,
    find_common_recipes,
    find_deciding_recipes,
)
from kernelkb.decide.rules import (
    CalibrationRow,
    EffectRow,
    FixRow,
    LibraryRow,
    MeasuredCaseRow,
    Program,
    RequirementsRow,
    ResourceRow,
    SignatureRow,
    TimeModelRow,
)
from kernelkb.model.answers.recommendation import Advice, MeasuredGain
from kernelkb.model.base import Record
from kernelkb.model.entries import bottleneck as model
from kernelkb.model.entries.fix import ChangeSignature, Effect, Fix, Resource, TimeModel
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.learned import PRIOR_SHARE, ConditionChange, KnowledgeChange, LearnedFix
from kernelkb.model.entries.quantities import parse_formula

MIN_CALIBRATION = 0.05
"""Least share of a gain that is predicted: at 0 a fix would not be tried and measured again."""
_MAX_SESSIONS_LISTED = 5
"""Maximum number of sessions in a row, the latest ones."""


RowT = TypeVar("RowT")


def pick_fields(record: Record, row: type[RowT], **others: object) -> RowT:
    """Return a row: the fields that a record has under the same names, as plain data.

    Args:
        record: Of the knowledge.
        row: Its TypedDict.
        **others: The row's other fields.
    """
    names = row.__annotations__.keys() - others.keys()
    plain = record.model_dump(mode="json", include=set(names))
    if plain.keys() != names:
        raise AssertionError(f"{type(record).__name__} lacks {names - plain.keys()}")
    return cast("RowT", {**plain, **others})


def build_threshold_notes(knowledge: Knowledge) -> dict[str, str]:
    """Return a note for each threshold that a project or a review changed, by its id."""
    notes = {
        name: f", the project's own, shipped {value:g}"
        for name, value in knowledge.overridden.items()
    }
    latest: dict[tuple[str, str], KnowledgeChange] = {}
    for change in knowledge.changed:
        if change.kind == "threshold":
            latest[change.id, change.field] = change
    for (name, field), change in latest.items():
        device = field.partition(".")[2]
        said = f", {f'on {device} ' if device else ''}reviewed by {_format_reviewer(change)}"
        if not device:
            said += f", shipped {knowledge.overridden[name]:g}"
            notes[name] = said
        else:
            notes[name] = f"{notes.get(name, '')}{said}, before {change.was:g}"
    return notes


def find_reviewed_conditions(knowledge: Knowledge) -> dict[int, str]:
    """Return the source of each condition that a review added, by the ``id()`` of its record."""
    return {
        id(change.added_condition): f"review of {review.session} by {review.reviewer}"
        for review in knowledge.reviews
        for change in review.corrections
        if isinstance(change, ConditionChange)
    }


def _format_reviewer(change: KnowledgeChange) -> str:
    return f"{change.reviewer} in {change.session}"


class ComparisonTableBuilder:
    """Builds the comparison table: each comparison once, with the metrics and recipes it needs.

    Args:
        bases: For each metric the measured metrics that it follows from.
        collectors: For each measured metric the recipes that collect it.
    """

    def __init__(
        self,
        bases: dict[str, list[str]],
        collectors: dict[str, frozenset[str]],
    ) -> None:
        self._bases = bases
        self._collectors = collectors
        self._positions: dict[CompiledComparison, int] = {}
        self.table: ComparisonTable = {
            "rows": [],
            "by_metric": {},
            "by_quantity": {},
            "needs": [],
            "deciding": [],
            "notes": {},
        }

    def add(self, comparison: CompiledComparison) -> int:
        """Return the position of a comparison, which is added if it is new."""
        if comparison in self._positions:
            return self._positions[comparison]
        table, position = self.table, len(self._positions)
        self._positions[comparison] = position
        metric, _, limit, _ = comparison
        sides = [metric, limit] if isinstance(limit, str) else [metric]
        quantities = [name for name in sides if not name.startswith("limit.")]
        needs = dict.fromkeys(base for name in quantities for base in self._bases.get(name, [name]))
        table["rows"].append(comparison)
        table["by_metric"].setdefault(metric, []).append(position)
        table["needs"].append(list(needs))
        collecting = find_common_recipes(needs, self._collectors)
        table["deciding"].append(DecidingRecipes(collecting, collecting))
        for name in dict.fromkeys([*quantities, *needs]):
            table["by_quantity"].setdefault(name, []).append(position)
        return position

    def find_requirements(self, bottleneck: str, condition: Condition) -> RequirementsRow:
        """Return the comparisons, recipes and metrics that decide the condition of a bottleneck."""
        own = list(dict.fromkeys(iter_comparisons(condition)))
        needs, deciding = self.table["needs"], self.table["deciding"]
        bases = dict.fromkeys(base for position in own for base in needs[position])
        return {
            "comparisons": own,
            "untouched": build_untouched_condition(
                bottleneck,
                find_deciding_recipes(condition, deciding),
                [base for base in bases if base in self._collectors],
            ),
        }


class ConditionCompiler:
    """Compiles the conditions of records to those of the compiled rules, with numeric limits.

    Args:
        knowledge: Source of the thresholds and of their changes.
        comparisons: The table to which comparisons are added.
    """

    def __init__(self, knowledge: Knowledge, comparisons: ComparisonTableBuilder) -> None:
        self.comparisons = comparisons
        self._thresholds = {t.id: t for t in knowledge.thresholds.thresholds}
        self._notes = build_threshold_notes(knowledge)
        self._reviewed = find_reviewed_conditions(knowledge)

    def compile(self, condition: model.Condition, source: str) -> Condition:
        """Return a compiled condition.

        Args:
            condition: The condition of a record.
            source: Source of the limits that are not thresholds.
        """
        source = self._reviewed.get(id(condition), source)
        match condition:
            case model.All(all=parts):
                return Combination("all", tuple(self.compile(part, source) for part in parts))
            case model.Any(any=parts):
                return Combination("any", tuple(self.compile(part, source) for part in parts))
            case model.Not(negated=inner):
                return Combination("not", (self.compile(inner, source),))
        if condition.threshold is not None:
            return self._add_threshold_comparison(condition, condition.threshold)
        if condition.value is None:
            raise AssertionError(f"the comparison of {condition.metric} has no limit")
        row = CompiledComparison(condition.metric, condition.op, condition.value, source)
        return self.comparisons.add(row)

    def _add_threshold_comparison(self, condition: model.Comparison, name: str) -> int:
        threshold = self._thresholds[name]
        note = self._notes.get(name, "")
        source = f"threshold {name} ({threshold.evidence}{note}): {', '.join(threshold.sources)}"
        if note:
            self.comparisons.table["notes"][source] = f" ({note.removeprefix(', ')})"
        limit = f"limit.{name}" if threshold.by_device else threshold.value
        return self.comparisons.add(
            CompiledComparison(condition.metric, condition.op, limit, source)
        )


def iter_comparisons(condition: Condition) -> Iterator[int]:
    """Yield the positions of a condition's comparisons, in its order."""
    if isinstance(condition, int):
        yield condition
    else:
        for part in condition.parts:
            yield from iter_comparisons(part)


def summarize_measured(
    knowledge: Knowledge, fix: str, bottleneck: str | None = None
) -> MeasuredGain | None:
    """Return what a fix gave, on all GPUs and operations; None without a measured case.

    Args:
        knowledge: Holds the measured cases.
        fix: Its id.
        bottleneck: Only the cases that had this cause; None: all.
    """
    cases = [
        case
        for case in knowledge.measured.cases
        if case.fix == fix and bottleneck in (None, case.bottleneck)
    ]
    if not cases:
        return None
    gains = [case.speedup for case in cases]
    return {
        "count": len(cases),
        "median": round(statistics.median(gains), 3),
        "lowest": min(gains),
        "highest": max(gains),
        "kernels": list(dict.fromkeys(case.kernel for case in cases)),
        "bottleneck": bottleneck,
    }


def summarize_by_cause(knowledge: Knowledge, fix: str) -> dict[str, MeasuredGain]:
    """Return what a fix gave for each cause that it was measured for."""
    causes = dict.fromkeys(c.bottleneck for c in knowledge.measured.cases if c.fix == fix)
    found = {cause: summarize_measured(knowledge, fix, cause) for cause in causes}
    return {cause: gain for cause, gain in found.items() if gain is not None}


def build_case_rows(knowledge: Knowledge) -> list[MeasuredCaseRow]:
    """Return the measured changes that gained, for the search of similar kernels."""
    return [pick_fields(case, MeasuredCaseRow) for case in knowledge.measured.cases if case.state]


def build_fix_rows(knowledge: Knowledge, conditions: ConditionCompiler) -> dict[str, FixRow]:
    """Return every fix by id."""
    return {
        fix.id: _build_fix_row(fix, conditions, knowledge)
        for family in knowledge.families
        for fix in family.fixes
    }


def _build_fix_row(fix: Fix, conditions: ConditionCompiler, knowledge: Knowledge) -> FixRow:
    advice: Advice = {
        "id": fix.id,
        "do": fix.do,
        "before": fix.before,
        "after": fix.after,
        "on_line": None,
        "tried": None,
        "when_not": fix.when_not,
        "undecided": [],
        "cost_min": fix.cost_min,
        "risk": fix.risk,
        "predicted_speedup": None,
        "measured": summarize_measured(knowledge, fix.id),
    }
    return {
        "advice": advice,
        "measured": summarize_by_cause(knowledge, fix.id),
        "at_call": fix.at_call,
        "effects": list(fix.effects),
        "on_line": fix.on_line,
        "undoes": list(fix.undoes),
        "recognised_by": _build_signature_row(fix.recognised_by),
        "applies": conditions.compile(fix.applies, ", ".join(fix.sources)),
    }


def _build_signature_row(signature: ChangeSignature | None) -> SignatureRow | None:
    if signature is None:
        return None
    return {
        "added": signature.added,
        "removed": signature.removed,
        "code": {name: str(change) for name, change in signature.code.items()},
        "finds_all": signature.finds_all,
    }


def build_time_model_row(knowledge: Knowledge) -> TimeModelRow:
    """Return the model of the time, with its resources and errors."""
    model = _get_model(knowledge)
    errors = model.errors
    return {
        "resources": [pick_fields(one, ResourceRow) for one in model.resources],
        "waits": {wait.id: [wait.metric, wait.follows] for wait in model.waits},
        "fill": model.fill,
        "warps": model.warps,
        "duration": model.duration,
        "empty_kernel": model.empty_kernel,
        "empty_us": model.empty_us,
        "clock": model.clock,
        "widths": {"50": errors.width_50, "80": errors.width_80, "95": errors.width_95},
        "slope": errors.slope,
        "unseen": errors.unseen,
    }


def build_effect_rows(knowledge: Knowledge, conditions: ConditionCompiler) -> dict[str, EffectRow]:
    """Return every effect by id; work on a unit or a group is that on each of its resources."""
    resources = _get_model(knowledge).resources
    return {e.id: _build_effect_row(e, resources, conditions) for e in knowledge.effects.effects}


def build_library_rows(knowledge: Knowledge) -> list[LibraryRow]:
    """Return the libraries whose kernels are recognised by name."""
    return [pick_fields(library, LibraryRow) for library in knowledge.libraries.libraries]


def _get_model(knowledge: Knowledge) -> TimeModel:
    model = knowledge.effects.model
    if model is None:
        raise ValueError("effects.yaml lacks its model")  # loading reports it
    return model


def _build_effect_row(
    effect: Effect, resources: tuple[Resource, ...], conditions: ConditionCompiler
) -> EffectRow:
    row: EffectRow = {
        "work": _expand(effect.work, resources),
        "add": _expand(effect.add, resources),
        "waits": {name: list(parse_formula(text)) for name, text in effect.waits.items()},
        "latency": _parse_optional(effect.latency),
        "fill": _parse_optional(effect.fill),
        "warps": _parse_optional(effect.warps),
        "time": _parse_optional(effect.time),
        "title": effect.title,
        "parts": list(effect.parts),
        "lowers_floor": effect.lowers_floor,
        "bounds_gain": effect.bounds_gain,
        "conditional": effect.conditional,
        "error": effect.error,
    }
    if effect.when is not None:
        row["when"] = conditions.compile(effect.when, ", ".join(effect.sources))
    return row


def _parse_optional(text: str | None) -> Program | None:
    return None if text is None else list(parse_formula(text))


def _expand(work: Mapping[str, str], resources: tuple[Resource, ...]) -> dict[str, Program]:
    """Return formulas by resource; one for the resource itself precedes one for its unit."""
    programs: dict[str, Program] = {}
    for resource in resources:
        for name in (resource.id, resource.unit, resource.group):
            if name in work:
                programs[resource.id] = list(parse_formula(work[name]))
                break
    return programs


def build_calibration_rows(knowledge: Knowledge) -> dict[str, CalibrationRow]:
    """Return a row for each fix with a measured case, by ``architecture/bottleneck/fix``.

    The other fixes are predicted by the model of the time alone.
    """
    return {
        f"{fix.architecture}/{fix.bottleneck}/{fix.fix}": _build_calibration_row(fix)
        for fix in knowledge.learned.fixes
        if fix.count
    }


def _build_calibration_row(fix: LearnedFix) -> CalibrationRow:
    """Return the share that predictions use for one fix."""
    usual = max(fix.calibration, MIN_CALIBRATION)
    return {
        "share": usual,
        "learned": {
            "fix": fix.fix,
            "architecture": fix.architecture,
            "prior": PRIOR_SHARE,
            "calibration": usual,
            "count": fix.count,
            "session_count": len(fix.sessions),
            "sessions": list(fix.sessions[-_MAX_SESSIONS_LISTED:]),
        },
    }


def list_effort_factors(knowledge: Knowledge) -> dict[str, float]:
    """Return the rank factor of a fix by its class of minutes."""
    weights = knowledge.calibration.weights.model_dump()
    return {str(m): weights[f"effort_{m}"] for m in (5, 30, 120, 480)}
