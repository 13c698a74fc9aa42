"""The decision graph → the flat program that ``kb recommend`` runs."""

from __future__ import annotations

from typing import Any as Json
from typing import TypeVar, get_args

import networkx as nx

from kernelkb import __version__
from kernelkb.decide.rules import (
    BottleneckRow,
    FixRow,
    GuardRow,
    LevelRow,
    LookAlikeRow,
    MetricRow,
    Program,
    Stamp,
    SymptomRow,
    TreeRow,
)
from kernelkb.decide.schema import SCHEMA
from kernelkb.graph.build import Graph, build_graph, covered, flow
from kernelkb.graph.calibration import lessons
from kernelkb.graph.comparisons import Comparisons, leaves_of
from kernelkb.graph.device_facts import device_names, facts_of
from kernelkb.graph.hardware import hardware
from kernelkb.graph.recipes import bases_of, collectors_of, recipe_rows
from kernelkb.model.base import Target
from kernelkb.model.bottleneck import Bottleneck, Group, Guard
from kernelkb.model.fix import Fix
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.metric import Metric
from kernelkb.model.tree import Tree

_GROUPS: tuple[str, ...] = get_args(Group)

Row = TypeVar("Row", BottleneckRow, GuardRow)


def flatten(knowledge: Knowledge) -> Program:
    """Return the decision program of a knowledge base, ready to be written as JSON."""
    graph = build_graph(knowledge)
    bases = bases_of(knowledge)
    recipes = recipe_rows(knowledge)
    collectors = collectors_of(knowledge, recipes)
    leaves = Comparisons(knowledge, bases, collectors)
    return {
        "schema": SCHEMA,
        "knowledge": _stamp(knowledge),
        "metrics": {m.id: _metric(m) for m in knowledge.catalogue.metrics},
        "derived": _derived(graph),
        "bases": {m: found for m, found in bases.items() if found != [m]},
        "raw_names": _raw_names(knowledge),
        "recipes": recipes,
        "collectors": collectors,
        "limits": _limits(knowledge),
        "devices": {d.id: facts_of(d, knowledge) for d in knowledge.devices.devices},
        "device_names": device_names(knowledge),
        "hardware": hardware(knowledge.devices),
        "bottlenecks": _by_target([_bottleneck(b, knowledge, leaves) for b in _ordered(graph)]),
        "guards": _by_target([_guard(g, knowledge, leaves) for g in knowledge.guards.guards]),
        "trees": {tree.id: _tree(tree, leaves) for tree in knowledge.trees},
        "fixes": {f.id: _fix(f, leaves) for family in knowledge.families for f in family.fixes},
        "realised": {r.kind: [r.usual, r.worst] for r in knowledge.calibration.realised},
        "learned": lessons(knowledge),
        "effort": _effort(knowledge),
        "levels": _levels(knowledge),
        "symptoms": _symptoms(knowledge),
        "comparisons": leaves.table,
    }


def _stamp(knowledge: Knowledge) -> Stamp:
    return {
        "version": __version__,
        "sha256": knowledge.sha256,
        "overlay": knowledge.overlay,
    }


def _limits(knowledge: Knowledge) -> dict[str, dict[str, float]]:
    """Return the thresholds that differ between GPUs; the others stand in the comparisons."""
    return {
        f"limit.{t.id}": {"": t.value, **t.by_device}
        for t in knowledge.thresholds.thresholds
        if t.by_device
    }


def _by_target(rows: list[Row]) -> dict[str, list[Row]]:
    return {target: [r for r in rows if r["target"] == target] for target in get_args(Target)}


def _effort(knowledge: Knowledge) -> dict[str, float]:
    weights = knowledge.calibration.weights.model_dump()
    return {str(m): weights[f"effort_{m}"] for m in (5, 30, 120, 480)}


def _levels(knowledge: Knowledge) -> dict[str, LevelRow]:
    return {
        f"{row.target}/{row.level}": {
            "can": [[claim.say, list(claim.needs)] for claim in row.can],
            "cannot": list(row.cannot),
        }
        for row in knowledge.guards.levels
    }


def _symptoms(knowledge: Knowledge) -> list[SymptomRow]:
    return [
        {
            "id": s.id,
            "kind": family.family,
            "title": s.title,
            "says": list(s.says),
            "unless": list(s.unless),
            "cause": s.cause,
            "cure": s.cure,
            "check": s.check,
            "fixes": list(s.fixes),
            "pattern": s.pattern,
            "weighs": s.weighs,
        }
        for family in knowledge.symptoms
        for s in family.symptoms
    ]


def _raw_names(knowledge: Knowledge) -> dict[str, list[Json]]:
    found = [m for m in knowledge.catalogue.metrics if "ncu" in m.raw]
    return {
        m.id: [
            list(m.raw["ncu"]),
            m.raw_scale,
            list(m.raw.get("ncu-details", ())),
            m.raw_zero == "known",
        ]
        for m in found
    }


def _metric(metric: Metric) -> MetricRow:
    return {
        "unit": metric.unit,
        "low": metric.range[0],
        "high": metric.range[1],
        "level": metric.level,
        "targets": list(metric.targets),
        "flag": metric.flag,
        "recipe": metric.recipe,
    }


def _fix(fix: Fix, leaves: Comparisons) -> FixRow:
    said = {"do", "before", "after", "when_not", "cost_min", "risk"}
    row: FixRow = {"advice": fix.model_dump(include=said)}
    if fix.applies is not None:
        row["applies"] = leaves.flat(fix.applies, ", ".join(fix.sources))
    return row


def _feeds(graph: Graph) -> Graph:
    def between_quantities(a: str, b: str) -> bool:
        return graph.edges[a, b]["kind"] == "feeds" and b.startswith("metric:")

    part: Graph = nx.subgraph_view(graph, filter_edge=between_quantities)
    return part


def _derived(graph: Graph) -> list[list[Json]]:
    rows: list[list[Json]] = []
    for node in nx.lexicographical_topological_sort(_feeds(graph)):
        record = graph.nodes[node].get("record")
        if isinstance(record, Metric) and record.derive:
            operands = list(record.derive.of)
            needs = [operand for operand in operands if isinstance(operand, str)]
            rows.append([record.id, record.derive.op, operands, needs])
    return rows


def _ordered(graph: Graph) -> list[Bottleneck]:
    """Return the bottlenecks in evaluation order: by group, then as truth reaches them."""
    position = {group: at for at, group in enumerate(_GROUPS)}
    order = [
        graph.nodes[node]["record"]
        for node in nx.lexicographical_topological_sort(flow(graph))
        if graph.nodes[node]["kind"] == "bottleneck"
    ]
    return sorted(order, key=lambda b: position[b.group])


def _bottleneck(b: Bottleneck, knowledge: Knowledge, leaves: Comparisons) -> BottleneckRow:
    source = _sources(b.id, b.sources, knowledge)
    when = leaves.flat(b.when, source)
    unless: list[LookAlikeRow] = [
        {
            "bottleneck": other.bottleneck,
            "when": leaves.flat(other.when, source),
            "because": other.because,
        }
        for other in b.unless
    ]
    every = [leaf for part in (when, *(row["when"] for row in unless)) for leaf in leaves_of(part)]
    return {
        "id": b.id,
        "group": b.group,
        "target": b.target,
        "when": when,
        "unless": unless,
        "weight": getattr(knowledge.calibration.weights, b.evidence),
        "gain": (
            {
                "kind": b.gain.kind,
                "take": b.gain.take,
                "estimates": [
                    {"estimator": e.estimator, "inputs": dict(e.inputs)} for e in b.gain.estimates
                ],
            }
            if b.gain
            else None
        ),
        "falsifier": (
            {"metric": b.falsifier.metric, "op": b.falsifier.op, "value": b.falsifier.value}
            if b.falsifier
            else None
        ),
        "fixes": list(b.fixes),
        "leaves": list(dict.fromkeys(every)),
        "hint": leaves.hint(when),
    }


def _sources(name: str, sources: tuple[str, ...], knowledge: Knowledge) -> str:
    own = "the project's own knowledge: " if name in knowledge.own else ""
    return own + ", ".join(sources)


def _guard(guard: Guard, knowledge: Knowledge, leaves: Comparisons) -> GuardRow:
    return {
        "id": guard.id,
        "target": guard.target,
        "when": leaves.flat(guard.when, _sources(guard.id, guard.sources, knowledge)),
        "bottlenecks": covered(guard, knowledge.bottlenecks),
        "fixes": list(guard.fixes),
        "widen": guard.widen,
        "because": guard.because,
    }


def _tree(tree: Tree, leaves: Comparisons) -> TreeRow:
    source = ", ".join(tree.sources)
    return {
        "root": tree.root,
        "questions": {
            q.id: {
                "when": leaves.flat(q.when, source),
                "then": q.then,
                "otherwise": q.otherwise,
                "unknown": q.unknown,
            }
            for q in tree.questions
        },
        "leaves": {
            leaf.id: {
                "verdict": leaf.verdict,
                "because": leaf.because,
                "do": list(leaf.do),
                "comes_first": leaf.comes_first,
            }
            for leaf in tree.leaves
        },
    }
