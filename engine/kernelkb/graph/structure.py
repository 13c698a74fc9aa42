"""Finds cycles and unreachable nodes in the decision graph."""

from __future__ import annotations

import networkx as nx

from kernelkb.graph.build import Graph, extract_truth_flow


def find_cycles(graph: Graph) -> list[list[str]]:
    """Return the cycles of dependencies, each as sorted nodes; valid knowledge has none."""
    return [sorted(circle) for circle in nx.simple_cycles(extract_truth_flow(graph))]


def find_unreachable_nodes(graph: Graph, tree: str) -> list[str]:
    """Return the questions and leaves of a tree that cannot be reached from its root."""
    reached = nx.descendants(_branch_view(graph), f"tree:{tree}")
    nodes = [n for n in graph if n.startswith(f"gate:{tree}/")]
    return [n for n in nodes if n not in reached]


def _branch_view(graph: Graph) -> Graph:
    part: Graph = nx.subgraph_view(
        graph, filter_edge=lambda a, b: graph.edges[a, b]["kind"] == "branch"
    )
    return part
