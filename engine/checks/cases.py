"""Do the cases of the knowledge give what they say?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kernelkb.decide.conditions import evaluate_comparisons
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.diagnose import judge_bottleneck
from kernelkb.decide.gates import walk_gate_tree
from kernelkb.decide.rules import CompiledRules
from kernelkb.decide.symptoms import find_symptoms
from kernelkb.model.knowledge import Knowledge


class BrokenCase(NamedTuple):
    """A case that does not give what it says."""

    name: str
    """As a review names it: ``entry: case``; the case of a tree by its metrics."""
    entry: str
    problem: str


def find_broken_cases(knowledge: Knowledge, rules: CompiledRules) -> Iterator[BrokenCase]:
    """Yield every case of a bottleneck or tree that does not hold, whoever accepts that."""
    rows = {r["id"]: r for found in rules["bottlenecks"].values() for r in found}
    for b in knowledge.bottlenecks:
        for case in b.cases:
            known = complete_metrics(rules, case.metrics, None)
            got = judge_bottleneck(
                rows[b.id], evaluate_comparisons(rules["comparisons"], known).truth
            )
            if got != case.verdict:
                said = f"case {case.name!r} gives {got}, not {case.verdict}"
                yield BrokenCase(f"{b.id}: {case.name}", b.id, said)
    for tree in knowledge.trees:
        for leading in tree.cases:
            known = complete_metrics(rules, leading.metrics, None)
            end = walk_gate_tree(
                rules["trees"][tree.id], evaluate_comparisons(rules["comparisons"], known)
            )
            if end.gate["id"] != leading.leaf:
                said = f"case {dict(leading.metrics)} ends at {end.gate['id']}"
                yield BrokenCase(f"{tree.id}: {_format_metrics(leading.metrics)}", tree.id, said)


def every_case_holds(knowledge: Knowledge, rules: CompiledRules) -> Iterator[tuple[str, str]]:
    """Every case gives what it says, save those that a review accepts as broken."""
    accepted = {name for review in knowledge.reviews for name in review.breaks}
    for case in find_broken_cases(knowledge, rules):
        if case.name not in accepted:
            yield case.entry, case.problem


def every_leaf_has_a_case(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Every leaf of a tree is the end of a case."""
    for tree in knowledge.trees:
        for leaf in {leaf.id for leaf in tree.leaves} - {case.leaf for case in tree.cases}:
            yield tree.id, f"no case ends at {leaf}"


def every_example_shows_its_symptom(
    knowledge: Knowledge, rules: CompiledRules
) -> Iterator[tuple[str, str]]:
    """Every symptom is the first that is found in its own example, with its captures."""
    for symptom in (s for family in knowledge.symptoms for s in family.symptoms):
        found = find_symptoms(rules, symptom.example)
        named = next((row for row in found if row["symptom"] == symptom.id), None)
        if named is None:
            others = ", ".join(row["symptom"] for row in found) or "nothing"
            yield symptom.id, f"its example shows {others}"
        elif not symptom.captures.items() <= named["captured"].items():
            yield symptom.id, f"captures {named['captured']} from its example"


def no_look_alike_shows_its_symptom(
    knowledge: Knowledge, rules: CompiledRules
) -> Iterator[tuple[str, str]]:
    """No symptom is found in the text that only resembles it."""
    for symptom in (s for family in knowledge.symptoms for s in family.symptoms):
        found = find_symptoms(rules, symptom.resembles)
        if any(row["symptom"] == symptom.id for row in found):
            yield symptom.id, "is found in the text that only resembles it"


def _format_metrics(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in metrics.items())
