"""Compiles conditions to positions in one table that holds each comparison once."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.decide.conditions import Combination, CompiledComparison, Condition, DecidingRecipes
from kernelkb.decide.next_measurement import (
    build_untouched_condition,
    find_common_recipes,
    find_deciding_recipes,
)
from kernelkb.decide.rules import ComparisonTable, RequirementsRow
from kernelkb.model.entries import condition as model
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.review import ConditionChange, KnowledgeChange


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
