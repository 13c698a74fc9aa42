"""Builds pictures of trees and bottlenecks as data: boxes, arrows, and which of them were taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from kernelkb.decide.diagnose import GateWalk
from kernelkb.model.entries.bottleneck import Bottleneck, iter_comparisons
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.workflow import LeadsTo, Tree


class Box(TypedDict):
    """A node of the picture."""

    id: str
    kind: str
    label: str
    taken: bool


class Arrow(TypedDict):
    """An edge of the picture."""

    source: str
    target: str
    label: str
    taken: bool


class Picture(TypedDict):
    """A directed graph, in the node-link form that many tools read."""

    directed: bool
    title: str
    nodes: list[Box]
    edges: list[Arrow]


_BRANCH_LABELS = {"then": "yes", "otherwise": "no", "unknown": "not known"}


def build_tree_picture(
    tree: Tree, gate_walk: GateWalk | None, question_texts: Mapping[str, str]
) -> Picture:
    """Return the picture of a tree and of the entries that its leaves lead to.

    Args:
        tree: The tree.
        gate_walk: The walk to highlight, or None.
        question_texts: For each question its condition in words.
    """
    path = dict(gate_walk.path) if gate_walk else {}
    end = gate_walk.gate["id"] if gate_walk else None
    nodes: list[Box] = []
    edges: list[Arrow] = []
    for question in tree.questions:
        label = f"{question.ask}\n{question_texts[question.id]}"
        nodes.append(_build_box(question.id, "question", label, question.id in path))
        goals: dict[str, list[str]] = {}
        for branch in ("then", "otherwise", "unknown"):
            goals.setdefault(getattr(question, branch), []).append(branch)
        for goal, branches in goals.items():
            label = ", ".join(_BRANCH_LABELS[branch] for branch in branches)
            edges.append(_build_arrow(question.id, goal, label, path.get(question.id) in branches))
    for leaf in tree.leaves:
        label = f"{leaf.verdict}: {leaf.do[0]}"
        nodes.append(_build_box(leaf.id, "leaf", label, leaf.id == end))
        for kind, name in _iter_targets(leaf.leads_to or LeadsTo()):
            if all(box["id"] != f"{kind}:{name}" for box in nodes):
                nodes.append(_build_box(f"{kind}:{name}", kind, name, taken=False))
            edges.append(_build_arrow(leaf.id, f"{kind}:{name}", "", leaf.id == end))
    return {"directed": True, "title": tree.title, "nodes": nodes, "edges": edges}


def name_entries(knowledge: Knowledge) -> dict[str, str]:
    """Return what boxes say of bottlenecks and fixes, by their ids."""
    titles = {one.id: one.title for one in knowledge.bottlenecks}
    return titles | {one.id: one.do for family in knowledge.families for one in family.fixes}


def build_bottleneck_picture(
    bottleneck: Bottleneck,
    knowledge: Knowledge,
    known: Mapping[str, float],
    verdict: str,
    shown: Mapping[str, str],
) -> Picture:
    """Return the picture of a bottleneck with its metrics, look-alikes and fixes.

    Args:
        bottleneck: The bottleneck.
        knowledge: Source of the metrics' titles.
        known: Values of metrics, which the picture shows.
        verdict: ``matches``, ``excluded`` or ``unknown``.
        shown: What the boxes of entries hold by id; empty: the ids.
    """
    titles = {metric.id: metric.title for metric in knowledge.catalogue.metrics}
    hit = verdict == "matches"
    label = f"{bottleneck.title}\n{verdict}" if known else bottleneck.title
    nodes = [_build_box(bottleneck.id, "bottleneck", label, hit)]
    edges: list[Arrow] = []
    for name in dict.fromkeys(leaf.metric for leaf in iter_comparisons(bottleneck.when)):
        value = f" {known[name]:.4g}" if name in known else ""
        text = f"{titles.get(name, name)}\n{value if shown else name + value}".strip()
        nodes.append(_build_box(f"metric:{name}", "metric", text, name in known))
        edges.append(_build_arrow(f"metric:{name}", bottleneck.id, "", name in known and hit))
    for other in bottleneck.unless:
        label = shown.get(other.bottleneck, other.bottleneck)
        nodes.append(_build_box(f"bottleneck:{other.bottleneck}", "look-alike", label, False))
        edges.append(
            _build_arrow(bottleneck.id, f"bottleneck:{other.bottleneck}", "or is it", False)
        )
    for position, fix in enumerate(bottleneck.fixes):
        nodes.append(_build_box(f"fix:{fix}", "fix", shown.get(fix, fix), hit and position == 0))
        edges.append(
            _build_arrow(bottleneck.id, f"fix:{fix}", str(position + 1), hit and not position)
        )
    return {"directed": True, "title": bottleneck.title, "nodes": nodes, "edges": edges}


def _iter_targets(to: LeadsTo) -> Iterable[tuple[str, str]]:
    for kind, names in (
        ("bottleneck", to.bottlenecks),
        ("symptom", to.symptoms),
        ("pattern", to.patterns),
        ("metric", to.metrics),
        ("fix", to.fixes),
    ):
        yield from ((kind, name) for name in names)


def _build_box(name: str, kind: str, label: str, taken: bool) -> Box:
    return {"id": name, "kind": kind, "label": label, "taken": taken}


def _build_arrow(source: str, target: str, label: str, taken: bool) -> Arrow:
    return {"source": source, "target": target, "label": label, "taken": taken}
