"""Evaluates a decision tree over the metrics, such as the gate: continue or stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from kernelkb.decide.conditions import Facts, find_reasons, format_reasons, judge_condition

if TYPE_CHECKING:
    from kernelkb.decide.rules import TreeRow
    from kernelkb.model.answers.recommendation import Gate, GateVerdict


PERFORMANCE_GATE = "performance-gate"
"""Id of the tree that every recommendation evaluates first."""


class GateWalk(NamedTuple):
    """The leaf at which a walk ended, and the path to it."""

    gate: Gate
    """The leaf's id and verdict, with the reasons."""
    path: tuple[tuple[str, str], ...]
    """For each question passed, its id and the branch taken: then, otherwise or unknown."""
    do: tuple[str, ...]
    """Next steps, in order."""
    comes_first: bool
    """Whether they come before any fix."""


def walk_gate_tree(tree: TreeRow, facts: Facts) -> GateWalk:
    """Return the leaf reached from the root; every question has a branch for unknown."""
    path: list[tuple[str, str]] = []
    reasons = ""
    node = tree["root"]
    while node not in tree["leaves"]:
        question = tree["questions"][node]
        holds = judge_condition(question["when"], facts.truth)
        branch = "unknown" if holds is None else "then" if holds else "otherwise"
        path.append((node, branch))
        if holds is not None:
            reasons = format_reasons(find_reasons(question["when"], facts, holds), facts) or reasons
        node = question["then"] if holds else question["otherwise"] if holds is False else ""
        node = node or question["unknown"]
    leaf = tree["leaves"][node]
    because = leaf["because"]
    if reasons and path[-1][1] != "unknown":
        because = f"{reasons}: {because[0].lower()}{because[1:]}"
    verdict = cast("GateVerdict", leaf["verdict"])  # other trees also end in diagnose and measure
    gate: Gate = {"id": node, "verdict": verdict, "because": because}
    return GateWalk(gate, tuple(path), tuple(leaf["do"]), leaf["comes_first"])
