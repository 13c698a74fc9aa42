"""The table of comparisons: each leaf of each condition once, with thresholds as numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any as Json

from kernelkb.decide.next_measurement import find_deciding_recipes
from kernelkb.decide.rules import FlatCondition, LeafTable, RequirementsRow
from kernelkb.graph.provenance import build_threshold_notes, find_reviewed_conditions
from kernelkb.model import condition as cond
from kernelkb.model.knowledge import Knowledge


class ComparisonTableBuilder:
    """Collects leaves while conditions are flattened."""

    def __init__(
        self, knowledge: Knowledge, bases: dict[str, list[str]], collectors: dict[str, int]
    ) -> None:
        self._thresholds = {t.id: t for t in knowledge.thresholds.thresholds}
        self._notes = build_threshold_notes(knowledge)
        self._reviewed = find_reviewed_conditions(knowledge)
        self._bases = bases
        self._collectors = collectors
        self._seen: dict[tuple[Json, ...], int] = {}
        self._sources: dict[str, int] = {}
        self.table: LeafTable = {
            "rows": [],
            "by_metric": {},
            "needs": [],
            "collected_by": [],
            "touches": {},
            "sources": [],
            "notes": {},
        }

    def flatten_condition(self, condition: cond.Condition, source: str) -> FlatCondition:
        """Return a condition as numbers of leaves and lists of them."""
        source = self._reviewed.get(id(condition), source)
        match condition:
            case cond.All(all=parts):
                return ["all", *(self.flatten_condition(part, source) for part in parts)]
            case cond.Any(any=parts):
                return ["any", *(self.flatten_condition(part, source) for part in parts)]
            case cond.Not(negated=inner):
                return ["not", self.flatten_condition(inner, source)]
        limit: float | str | None = condition.value
        if condition.threshold is not None:
            threshold = self._thresholds[condition.threshold]
            limit = f"limit.{threshold.id}" if threshold.by_device else threshold.value
            named = ", ".join(threshold.sources)
            note = self._notes.get(threshold.id, "")
            source = f"threshold {threshold.id} ({threshold.evidence}{note}): {named}"
            if note:
                self.table["notes"][source] = f" ({note.removeprefix(', ')})"
        key = (condition.metric, condition.op, limit, self._intern_source(source))
        return self._seen[key] if key in self._seen else self._add_leaf(key)

    def _intern_source(self, text: str) -> int:
        if text not in self._sources:
            self._sources[text] = len(self._sources)
            self.table["sources"].append(text)
        return self._sources[text]

    def _add_leaf(self, key: tuple[Json, ...]) -> int:
        leaf = self._seen[key] = len(self._seen)
        metric, op, limit, _ = key
        self.table["rows"].append(list(key))
        self._index_by_metric(leaf, metric, op, limit)
        names = [metric, *([limit] if isinstance(limit, str) else [])]
        asked = [name for name in names if not name.startswith("limit.")]
        needs = dict.fromkeys(base for name in asked for base in self._bases.get(name, [name]))
        mask = -1
        for base in needs:
            mask &= self._collectors.get(base, 0)
        self.table["needs"].append(list(needs))
        self.table["collected_by"].append(mask)
        for name in {*asked, *needs}:
            self.table["touches"].setdefault(name, []).append(leaf)
        return leaf

    def _index_by_metric(self, leaf: int, metric: str, op: str, limit: float | str) -> None:
        groups = self.table["by_metric"].setdefault(metric, [])
        group = next((g for g in groups if g[0] == op), None)
        if group is None:
            groups.append(group := [op, [], []])
        group[1].append(leaf)
        group[2].append(limit)

    def find_requirements(self, condition: FlatCondition) -> RequirementsRow:
        """Return what asking comes to while nothing is known about a flat condition."""
        leaves = list(dict.fromkeys(iter_leaves(condition)))
        nothing: list[bool | None] = [None] * len(self._seen)
        false, true = find_deciding_recipes(condition, nothing, self.table["collected_by"])
        asks = dict.fromkeys(
            base
            for leaf in leaves
            for base in self.table["needs"][leaf]
            if base in self._collectors
        )
        return {"leaves": leaves, "false": false, "true": true, "asks": list(asks)}


def iter_leaves(condition: FlatCondition) -> Iterator[int]:
    """Yield the leaves of a flat condition, in its order."""
    if isinstance(condition, int):
        yield condition
    else:
        for part in condition[1:]:
            yield from iter_leaves(part)
