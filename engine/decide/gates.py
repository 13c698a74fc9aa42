"""Walk a gate tree to its leaf."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from kernelkb.decide.conditions import Facts, find_reasons, format_reason, judge_condition

if TYPE_CHECKING:
    from kernelkb.decide.rules import TreeRow
    from kernelkb.model.recommendation import Gate, GateVerdict


PERFORMANCE_GATE = "performance-gate"
"""The tree that every recommendation starts with."""


class GateWalk(NamedTuple):
    """Where a walk went."""

    gate: Gate
    path: tuple[tuple[str, str], ...]
    """Question id and the branch taken: then, otherwise or unknown."""
    do: tuple[str, ...]
    comes_first: bool


def walk_gate_tree(tree: TreeRow, facts: Facts) -> GateWalk:
    """Follow the tree from its root; unknown has a branch of its own at every question."""
    path: list[tuple[str, str]] = []
    spoken = ""
    node = tree["root"]
    while node not in tree["leaves"]:
        question = tree["questions"][node]
        holds = judge_condition(question["when"], facts.truth)
        branch = "unknown" if holds is None else "then" if holds else "otherwise"
        path.append((node, branch))
        if holds is not None:
            found = find_reasons(question["when"], facts, holds)
            grounds = [format_reason(reason, facts.table["notes"]) for reason in found]
            spoken = ", ".join(grounds) or spoken
        node = question["then"] if holds else question["otherwise"] if holds is False else ""
        node = node or question["unknown"]
    leaf = tree["leaves"][node]
    because = leaf["because"]
    if spoken and path[-1][1] != "unknown":
        because = f"{spoken}: {because[0].lower()}{because[1:]}"
    verdict = cast("GateVerdict", leaf["verdict"])  # other trees also end in diagnose and measure
    gate: Gate = {"id": node, "verdict": verdict, "because": because}
    return GateWalk(gate, tuple(path), tuple(leaf["do"]), leaf["comes_first"])
