"""Evaluates every bottleneck, guard and gate by walking the graph in topological order.

A slow and simple second implementation, as the reference for tests of the compiled rules.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import networkx as nx

from kernelkb.graph.build import Graph, extract_truth_flow, find_nodes

_OPS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def evaluate_verdicts(graph: Graph, known: Mapping[str, float]) -> dict[str, str]:
    """Return ``matches``, ``excluded`` or ``unknown`` for every bottleneck of the graph.

    Args:
        graph: The decision graph.
        known: Values of metrics and device facts, including derived ones, by name.
    """
    truth = _propagate_truth(graph, known)
    return {node.partition(":")[2]: truth[node] for node in find_nodes(graph, "bottleneck")}


def find_suppressed(graph: Graph, known: Mapping[str, float]) -> set[str]:
    """Return the bottlenecks that a guard suppresses."""
    truth = _propagate_truth(graph, known)
    names: set[str] = set()
    for guard in find_nodes(graph, "guard"):
        if truth[guard] is True:
            names.update(goal.partition(":")[2] for goal in graph.successors(guard))
    return names


def find_end_leaf(graph: Graph, tree: str, known: Mapping[str, float]) -> str:
    """Return the id of the leaf that the metrics lead to in a gate tree."""
    truth = _propagate_truth(graph, known)
    (node,) = graph.successors(f"tree:{tree}")
    while graph.nodes[node]["kind"] == "question":
        answer = {True: "then", False: "otherwise", None: "unknown"}[truth[node]]
        node = next(
            goal
            for _, goal, data in graph.out_edges(node, data=True)
            if answer in data.get("answers", ())
        )
    return node.rpartition("/")[2]


def _propagate_truth(graph: Graph, known: Mapping[str, float]) -> dict[str, Any]:
    truth: dict[str, Any] = {}
    for node in nx.topological_sort(extract_truth_flow(graph)):
        truth[node] = _evaluate_node(graph, node, known, truth)
    return truth


def _evaluate_node(
    graph: Graph, node: str, known: Mapping[str, float], truth: dict[str, Any]
) -> Any:
    data = graph.nodes[node]
    match data["kind"]:
        case "metric" | "fact":
            return known.get(node.partition(":")[2])
        case "threshold":
            return known.get(f"limit.{data['record'].id}", data["record"].value)
        case "comparison":
            return _evaluate_comparison(graph, node, truth)
        case "all" | "any" | "not":
            return _combine_truth(data["kind"], [truth[part] for part in graph.predecessors(node)])
        case "question" | "guard":
            return next(
                truth[source]
                for source, _, data in graph.in_edges(node, data=True)
                if data["kind"] == "decides"
            )
        case "bottleneck":
            return _judge_bottleneck(graph, node, truth)
    return None


def _evaluate_comparison(graph: Graph, node: str, truth: dict[str, Any]) -> bool | None:
    edges = graph.in_edges(node, data=True)
    sides = {data["side"]: truth[source] for source, _, data in edges}
    record = graph.nodes[node]["record"]
    limit = sides.get("limit", record.value)
    if len(sides) == 1 and isinstance(record.value, str):
        limit = sides["metric"]  # a quantity compared with itself is a single edge
    if sides.get("metric") is None or limit is None:
        return None
    return bool(_OPS[record.op](sides["metric"], limit))


def _combine_truth(kind: str, parts: list[bool | None]) -> bool | None:
    if kind == "not":
        return None if parts[0] is None else not parts[0]
    if kind == "all":
        return False if False in parts else None if None in parts else True
    return True if True in parts else None if None in parts else False


def _judge_bottleneck(graph: Graph, node: str, truth: dict[str, Any]) -> str:
    held: bool | None = None
    hinted = False
    for source, _, data in graph.in_edges(node, data=True):
        if data["kind"] == "excludes" and truth[source] is True:
            return "excluded"
        if data["kind"] == "decides":
            held = truth[source]
        hinted = hinted or (data["kind"] == "hints" and truth[source] is True)
    held = True if held is None and hinted else held
    return "unknown" if held is None else "matches" if held else "excluded"
