"""Walk a gate tree to its leaf."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kernelkb.decide.conditions import Facts, find_reasons, format_reason, judge_condition

if TYPE_CHECKING:
    from kernelkb.decide.answer import GateDict
    from kernelkb.decide.rules import TreeRow


PERFORMANCE_GATE = "performance-gate"
"""The tree that every recommendation starts with."""


class GateWalk(NamedTuple):
    """Where a walk went."""

    gate: GateDict
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
        verdict = judge_condition(question["when"], facts.truth)
        branch = "unknown" if verdict is None else "then" if verdict else "otherwise"
        path.append((node, branch))
        if verdict is not None:
            found = find_reasons(question["when"], facts, verdict)
            grounds = [format_reason(reason, facts.table["notes"]) for reason in found]
            spoken = ", ".join(grounds) or spoken
        node = question["then"] if verdict else question["otherwise"] if verdict is False else ""
        node = node or question["unknown"]
    leaf = tree["leaves"][node]
    because = leaf["because"]
    if spoken and path[-1][1] != "unknown":
        because = f"{spoken}: {because[0].lower()}{because[1:]}"
    gate: GateDict = {"id": node, "verdict": leaf["verdict"], "because": because}
    return GateWalk(gate, tuple(path), tuple(leaf["do"]), leaf["comes_first"])
