"""Lint that runs the cases of bottlenecks and trees, and the example logs of symptoms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kernelkb.decide.conditions import evaluate_comparisons
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.diagnose import judge_bottleneck
from kernelkb.decide.gates import walk_gate_tree
from kernelkb.decide.rules import CompiledRules
from kernelkb.decide.symptoms import find_symptoms
from kernelkb.model.entries.knowledge import Knowledge


class BrokenCase(NamedTuple):
    """A case whose evaluation differs from its stated result."""

    name: str
    """``entry: case``, as reviews name it; a tree's case is named by its metrics."""
    entry: str
    problem: str


def find_broken_cases(knowledge: Knowledge, rules: CompiledRules) -> Iterator[BrokenCase]:
    """Yield every case of a bottleneck or tree that fails, also those that a review accepts."""
    rows = {r["id"]: r for group in rules["bottlenecks"].values() for r in group}
    for b in knowledge.bottlenecks:
        for case in b.cases:
            metrics = complete_metrics(rules, case.metrics, None)
            got = judge_bottleneck(
                rows[b.id], evaluate_comparisons(rules["comparisons"], metrics).truth
            )
            if got != case.verdict:
                text = f"case {case.name!r} gives {got}, not {case.verdict}"
                yield BrokenCase(f"{b.id}: {case.name}", b.id, text)
    for tree in knowledge.trees:
        for leading in tree.cases:
            metrics = complete_metrics(rules, leading.metrics, None)
            end = walk_gate_tree(
                rules["trees"][tree.id], evaluate_comparisons(rules["comparisons"], metrics)
            )
            if end.gate["id"] != leading.leaf:
                text = f"case {dict(leading.metrics)} ends at {end.gate['id']}"
                yield BrokenCase(f"{tree.id}: {_format_metrics(leading.metrics)}", tree.id, text)


def every_case_holds(knowledge: Knowledge, rules: CompiledRules) -> Iterator[tuple[str, str]]:
    """Every case gives its stated result, except those that a review accepts as broken."""
    accepted = {name for review in knowledge.reviews for name in review.breaks}
    for case in find_broken_cases(knowledge, rules):
        if case.name not in accepted:
            yield case.entry, case.problem


def every_leaf_has_a_case(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Every leaf of a tree is the result of a case."""
    for tree in knowledge.trees:
        for leaf in {leaf.id for leaf in tree.leaves} - {case.leaf for case in tree.cases}:
            yield tree.id, f"no case ends at {leaf}"


def every_example_shows_its_symptom(
    knowledge: Knowledge, rules: CompiledRules
) -> Iterator[tuple[str, str]]:
    """Every symptom is the one found in its own example log, with its captures."""
    for symptom in (s for family in knowledge.symptoms for s in family.symptoms):
        rows = find_symptoms(rules, symptom.example)
        own = next((row for row in rows if row["symptom"] == symptom.id), None)
        if own is None:
            others = ", ".join(row["symptom"] for row in rows) or "nothing"
            yield symptom.id, f"its example shows {others}"
        elif not symptom.captures.items() <= own["captured"].items():
            yield symptom.id, f"captures {own['captured']} from its example"


def no_look_alike_shows_its_symptom(
    knowledge: Knowledge, rules: CompiledRules
) -> Iterator[tuple[str, str]]:
    """No symptom is found in its counterexample."""
    for symptom in (s for family in knowledge.symptoms for s in family.symptoms):
        rows = find_symptoms(rules, symptom.counterexample)
        if any(row["symptom"] == symptom.id for row in rows):
            yield symptom.id, "is found in its counterexample"


def _format_metrics(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in metrics.items())
