"""Do the cases of the knowledge give what they say?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kernelkb.decide.conditions import compare
from kernelkb.decide.derive import complete
from kernelkb.decide.diagnose import verdict
from kernelkb.decide.gates import walk
from kernelkb.decide.rules import Program
from kernelkb.model.knowledge import Knowledge


class BrokenCase(NamedTuple):
    """A case that does not give what it says."""

    name: str
    """As a review names it: ``entry: case``; the case of a tree by its metrics."""
    entry: str
    found: str


def broken_cases(knowledge: Knowledge, program: Program) -> Iterator[BrokenCase]:
    """Yield every case of a bottleneck or tree that does not hold, whoever accepts that."""
    rows = {r["id"]: r for found in program["bottlenecks"].values() for r in found}
    for b in knowledge.bottlenecks:
        for case in b.cases:
            known = complete(program, case.metrics, None)
            got = verdict(rows[b.id], compare(program["comparisons"], known).truth)
            if got != case.verdict:
                said = f"case {case.name!r} gives {got}, not {case.verdict}"
                yield BrokenCase(f"{b.id}: {case.name}", b.id, said)
    for tree in knowledge.trees:
        for leading in tree.cases:
            known = complete(program, leading.metrics, None)
            end = walk(program["trees"][tree.id], compare(program["comparisons"], known))
            if end.gate["id"] != leading.leaf:
                said = f"case {dict(leading.metrics)} ends at {end.gate['id']}"
                yield BrokenCase(f"{tree.id}: {_measured(leading.metrics)}", tree.id, said)


def every_case_holds(knowledge: Knowledge, program: Program) -> Iterator[tuple[str, str]]:
    """Every case gives what it says, save those that a review accepts as broken."""
    accepted = {name for review in knowledge.reviews for name in review.breaks}
    for case in broken_cases(knowledge, program):
        if case.name not in accepted:
            yield case.entry, case.found


def every_leaf_has_a_case(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Every leaf of a tree is the end of a case."""
    for tree in knowledge.trees:
        for leaf in {leaf.id for leaf in tree.leaves} - {case.leaf for case in tree.cases}:
            yield tree.id, f"no case ends at {leaf}"


def _measured(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in metrics.items())
