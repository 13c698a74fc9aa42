"""Builds the decision graph of the knowledge, a networkx graph of its entries and conditions.

Nodes are named ``kind:id``. An edge of ``TRUTH_FLOW_KINDS`` means that its target depends on its
source: comparisons on metrics, conditions on their comparisons, bottlenecks, guards and questions
on conditions, fixes on bottlenecks and symptoms, branches on questions. Edges of other kinds only
relate entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import networkx as nx

from kernelkb.model.entries.bottleneck import (
    All,
    Any,
    Bottleneck,
    Comparison,
    Condition,
    Guard,
    Not,
    Symptom,
)
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.quantities import Metric, list_quantities
from kernelkb.model.entries.workflow import LeadsTo, Leaf, Pattern, Tree, Workflow

Graph: TypeAlias = "nx.DiGraph[str]"

TRUTH_FLOW_KINDS = frozenset(
    {"feeds", "part", "decides", "hints", "excludes", "cured-by", "branch"}
)
"""Kinds of edges whose target depends on their source; together they must have no cycle."""


def build_graph(knowledge: Knowledge) -> Graph:
    """Return the decision graph of a whole knowledge base."""
    graph: Graph = nx.DiGraph()
    for metric in knowledge.catalogue.metrics:
        _add_metric(graph, metric)
    for recipe in knowledge.catalogue.recipes:
        graph.add_node(f"recipe:{recipe.id}", kind="recipe", record=recipe)
    for threshold in knowledge.thresholds.thresholds:
        graph.add_node(f"threshold:{threshold.id}", kind="threshold", record=threshold)
    for fix in (fix for family in knowledge.families for fix in family.fixes):
        graph.add_node(f"fix:{fix.id}", kind="fix", record=fix)
        for pattern_id in fix.patterns:
            graph.add_edge(f"fix:{fix.id}", f"pattern:{pattern_id}", kind="guided-by")
    for bottleneck in knowledge.bottlenecks:
        _add_bottleneck(graph, bottleneck)
    for guard in knowledge.guards.guards:
        _add_guard(graph, guard, knowledge.bottlenecks)
    for tree in knowledge.trees:
        _add_tree(graph, tree)
    for symptom in (s for found in knowledge.symptoms for s in found.symptoms):
        _add_symptom(graph, symptom)
    for pattern in knowledge.patterns:
        _add_pattern(graph, pattern)
    _add_workflow(graph, knowledge.workflow)
    return graph


def extract_truth_flow(graph: Graph) -> Graph:
    """Return the graph with all its nodes, but only the edges of ``TRUTH_FLOW_KINDS``."""
    edges = [(a, b) for a, b, data in graph.edges(data=True) if data["kind"] in TRUTH_FLOW_KINDS]
    part: Graph = graph.edge_subgraph(edges).copy()
    part.add_nodes_from(graph.nodes(data=True))
    return part


def find_nodes(graph: Graph, kind: str) -> Iterator[str]:
    """Yield the nodes of one kind, in the order of the files."""
    return (node for node, data in graph.nodes(data=True) if data["kind"] == kind)


def find_guarded_bottlenecks(guard: Guard, bottlenecks: tuple[Bottleneck, ...]) -> list[str]:
    """Return the ids of the bottlenecks that a guard can suppress."""
    return [
        b.id
        for b in bottlenecks
        if b.target == guard.target
        and b.id not in guard.except_
        and (b.id in guard.bottlenecks or b.group in guard.groups)
    ]


def _add_metric(graph: Graph, metric: Metric) -> None:
    node = f"metric:{metric.id}"
    graph.add_node(node, kind="metric", record=metric)
    if metric.recipe:
        graph.add_edge(f"recipe:{metric.recipe}", node, kind="collects")
    for operand in (name for formula in metric.derive for name in list_quantities(formula)):
        graph.add_edge(_ensure_quantity_node(graph, operand), node, kind="feeds")


def _add_bottleneck(graph: Graph, bottleneck: Bottleneck) -> None:
    node = f"bottleneck:{bottleneck.id}"
    graph.add_node(node, kind="bottleneck", record=bottleneck)
    when = _add_condition(graph, bottleneck.when, f"{bottleneck.id}/when")
    graph.add_edge(when, node, kind="decides")
    if bottleneck.hint is not None:
        graph.add_edge(
            _add_condition(graph, bottleneck.hint, f"{bottleneck.id}/hint"), node, kind="hints"
        )
    for position, other in enumerate(bottleneck.unless):
        excluding = _add_condition(graph, other.when, f"{bottleneck.id}/unless.{position}")
        graph.add_edge(excluding, node, kind="excludes")
        graph.add_edge(node, f"bottleneck:{other.bottleneck}", kind="resembles")
    for position, fix in enumerate(bottleneck.fixes):
        graph.add_edge(node, f"fix:{fix}", kind="cured-by", position=position)


def _add_guard(graph: Graph, guard: Guard, bottlenecks: tuple[Bottleneck, ...]) -> None:
    node = f"guard:{guard.id}"
    graph.add_node(node, kind="guard", record=guard)
    graph.add_edge(_add_condition(graph, guard.when, f"{guard.id}/when"), node, kind="decides")
    for name in find_guarded_bottlenecks(guard, bottlenecks):
        graph.add_edge(node, f"bottleneck:{name}", kind="silences")


def _add_symptom(graph: Graph, symptom: Symptom) -> None:
    node = f"symptom:{symptom.id}"
    graph.add_node(node, kind="symptom", record=symptom)
    for position, fix in enumerate(symptom.fixes):
        graph.add_edge(node, f"fix:{fix}", kind="cured-by", position=position)
    if symptom.pattern:
        graph.add_edge(node, f"pattern:{symptom.pattern}", kind="avoided-by")


def _add_pattern(graph: Graph, pattern: Pattern) -> None:
    node = f"pattern:{pattern.id}"
    graph.add_node(node, kind="pattern", record=pattern)
    if pattern.refines:
        graph.add_edge(node, f"pattern:{pattern.refines}", kind="refines")
    for other in pattern.conflicts:
        graph.add_edge(node, f"pattern:{other.pattern}", kind="conflicts", resolve=other.resolve)
    for bottleneck in pattern.bottlenecks:
        graph.add_edge(node, f"bottleneck:{bottleneck}", kind="helps")


def _add_workflow(graph: Graph, workflow: Workflow) -> None:
    steps = [(phase.id, gate.id, gate) for phase in workflow.phases for gate in phase.gates]
    for phase, name, gate in steps:
        node = f"workflow:{phase}/{name}"
        graph.add_node(node, kind="workflow", record=gate)
        if gate.tree:
            graph.add_edge(node, f"tree:{gate.tree}", kind="decided-by")
        for pattern in gate.patterns:
            graph.add_edge(node, f"pattern:{pattern}", kind="leads-to")
    for check in workflow.preflight:
        node = f"workflow:preflight/{check.id}"
        graph.add_node(node, kind="workflow", record=check)
        for pattern in check.patterns:
            graph.add_edge(node, f"pattern:{pattern}", kind="leads-to")


def _add_tree(graph: Graph, tree: Tree) -> None:
    for leaf in tree.leaves:
        graph.add_node(f"gate:{tree.id}/{leaf.id}", kind="leaf", record=leaf)
        for goal in _iter_leaf_targets(leaf):
            graph.add_edge(f"gate:{tree.id}/{leaf.id}", goal, kind="leads-to")
    for question in tree.questions:
        graph.add_node(f"gate:{tree.id}/{question.id}", kind="question", record=question)
    graph.add_node(f"tree:{tree.id}", kind="tree", record=tree)
    graph.add_edge(f"tree:{tree.id}", f"gate:{tree.id}/{tree.root}", kind="branch", answer="start")
    for question in tree.questions:
        node_id = f"gate:{tree.id}/{question.id}"
        when = _add_condition(graph, question.when, f"{tree.id}/{question.id}")
        graph.add_edge(when, node_id, kind="decides")
        for answer in ("then", "otherwise", "unknown"):
            goal = f"gate:{tree.id}/{getattr(question, answer)}"
            answers = (*graph.get_edge_data(node_id, goal, {}).get("answers", ()), answer)
            graph.add_edge(node_id, goal, kind="branch", answers=answers)


def _iter_leaf_targets(leaf: Leaf) -> Iterator[str]:
    to = leaf.leads_to or LeadsTo()
    yield from (f"bottleneck:{name}" for name in to.bottlenecks)
    yield from (f"symptom:{name}" for name in to.symptoms)
    yield from (f"pattern:{name}" for name in to.patterns)
    yield from (f"metric:{name}" for name in to.metrics)
    yield from (f"fix:{name}" for name in to.fixes)


def _add_condition(graph: Graph, condition: Condition, path: str) -> str:
    node = f"condition:{path}"
    match condition:
        case Comparison():
            graph.add_node(node, kind="comparison", op=condition.op, record=condition)
            graph.add_edge(
                _ensure_quantity_node(graph, condition.metric), node, kind="feeds", side="metric"
            )
            if condition.threshold:
                graph.add_edge(f"threshold:{condition.threshold}", node, kind="feeds", side="limit")
            elif isinstance(condition.value, str):
                graph.add_edge(
                    _ensure_quantity_node(graph, condition.value), node, kind="feeds", side="limit"
                )
        case All(all=parts) | Any(any=parts):
            graph.add_node(node, kind="all" if isinstance(condition, All) else "any")
            for position, part in enumerate(parts):
                graph.add_edge(_add_condition(graph, part, f"{path}.{position}"), node, kind="part")
        case Not(negated=inner):
            graph.add_node(node, kind="not")
            graph.add_edge(_add_condition(graph, inner, f"{path}.not"), node, kind="part")
    return node


def _ensure_quantity_node(graph: Graph, name: str) -> str:
    if not name.startswith("device."):
        return f"metric:{name}"
    node = f"fact:{name}"
    graph.add_node(node, kind="fact")
    return node


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
