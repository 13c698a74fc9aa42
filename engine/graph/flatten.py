"""The decision graph → the flat program that ``kb recommend`` runs."""

from __future__ import annotations

from typing import Any as Json
from typing import get_args

import networkx as nx

from engine import __version__
from engine.decide.program import (
    SCHEMA,
    BottleneckRow,
    Condition,
    GuardRow,
    MetricRow,
    Program,
    TreeRow,
)
from engine.graph.build import GATE, Graph, build_graph, covered, flow
from engine.graph.hardware import hardware
from engine.model import condition as cond
from engine.model.bottleneck import Bottleneck, Group
from engine.model.device import Architecture, Device
from engine.model.knowledge import Knowledge
from engine.model.metric import Metric
from engine.model.tree import Tree

_GROUPS: tuple[str, ...] = get_args(Group)


def flatten(knowledge: Knowledge) -> Program:
    """Return the decision program of a knowledge base, ready to be written as JSON."""
    graph = build_graph(knowledge)
    limits = _Limits(knowledge)
    weights = knowledge.calibration.weights.model_dump()
    return {
        "schema": SCHEMA,
        "knowledge": {
            "version": __version__,
            "sha256": knowledge.sha256,
            "overlay": knowledge.overlay,
        },
        "metrics": {m.id: _metric(m, graph) for m in knowledge.catalogue.metrics},
        "derived": _derived(graph),
        "raw_names": _raw_names(knowledge),
        "recipes": {
            r.id: {"command": r.command, "cost": r.cost, "target": r.target}
            for r in knowledge.catalogue.recipes
        },
        "devices": {d.id: _facts(d, knowledge) for d in knowledge.devices.devices},
        "device_names": _device_names(knowledge),
        "hardware": hardware(knowledge.devices),
        "bottlenecks": [_bottleneck(b, limits, weights) for b in _ordered(graph)],
        "guards": [_guard(g, knowledge, limits) for g in knowledge.guards.guards],
        "gate": next(_tree(t, limits) for t in knowledge.trees if t.id == GATE),
        "fixes": {
            f.id: f.model_dump(include={"do", "before", "after", "when_not", "cost_min", "risk"})
            for family in knowledge.families
            for f in family.fixes
        },
        "realised": {r.kind: [r.usual, r.worst] for r in knowledge.calibration.realised},
        "effort": {str(m): weights[f"effort_{m}"] for m in (5, 30, 120, 480)},
        "levels": {
            f"{row.target}/{row.level}": {
                "can": [[claim.say, list(claim.needs)] for claim in row.can],
                "cannot": list(row.cannot),
            }
            for row in knowledge.guards.levels
        },
    }


class _Limits:
    """Turns conditions into lists, with thresholds replaced by their values."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._thresholds = {t.id: t for t in knowledge.thresholds.thresholds}

    def flat(self, condition: cond.Condition, source: str) -> Condition:
        match condition:
            case cond.All(all=parts):
                return ["all", *(self.flat(part, source) for part in parts)]
            case cond.Any(any=parts):
                return ["any", *(self.flat(part, source) for part in parts)]
            case cond.Not(negated=inner):
                return ["not", self.flat(inner, source)]
        if condition.threshold is None:
            return ["is", condition.metric, condition.op, condition.value, source]
        threshold = self._thresholds[condition.threshold]
        origin = f"threshold {threshold.id} ({threshold.evidence}): {', '.join(threshold.sources)}"
        return ["is", condition.metric, condition.op, threshold.value, origin]


def _raw_names(knowledge: Knowledge) -> dict[str, list[Json]]:
    found = [m for m in knowledge.catalogue.metrics if "ncu" in m.raw]
    return {m.id: [list(m.raw["ncu"]), m.raw_scale] for m in found}


def _metric(metric: Metric, graph: Graph) -> MetricRow:
    return {
        "title": metric.title,
        "unit": metric.unit,
        "low": metric.range[0],
        "high": metric.range[1],
        "level": metric.level,
        "targets": list(metric.targets),
        "flag": metric.flag,
        "recipe": metric.recipe,
        "base": _base(metric.id, graph),
    }


def _base(metric: str, graph: Graph) -> list[str]:
    """Return what a derived metric comes down to, itself when it is not derived."""
    node = f"metric:{metric}"
    above = [n for n in nx.ancestors(_feeds(graph), node) if n.startswith("metric:")]
    roots = [n for n in above if graph.nodes[n]["record"].derive is None]
    return sorted(n.partition(":")[2] for n in roots or [node])


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
            rows.append([record.id, record.derive.op, list(record.derive.of)])
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


def _bottleneck(b: Bottleneck, limits: _Limits, weights: dict[str, Json]) -> BottleneckRow:
    source = ", ".join(b.sources)
    return {
        "id": b.id,
        "group": b.group,
        "target": b.target,
        "title": b.title,
        "when": limits.flat(b.when, source),
        "unless": [
            {
                "bottleneck": other.bottleneck,
                "when": limits.flat(other.when, source),
                "because": other.because,
            }
            for other in b.unless
        ],
        "weight": weights[b.evidence],
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
    }


def _guard(guard: Json, knowledge: Knowledge, limits: _Limits) -> GuardRow:
    return {
        "id": guard.id,
        "target": guard.target,
        "when": limits.flat(guard.when, ", ".join(guard.sources)),
        "bottlenecks": covered(guard, knowledge.bottlenecks),
        "because": guard.because,
    }


def _tree(tree: Tree, limits: _Limits) -> TreeRow:
    source = ", ".join(tree.sources)
    return {
        "root": tree.root,
        "questions": {
            q.id: {
                "when": limits.flat(q.when, source),
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


def _facts(device: Device, knowledge: Knowledge) -> dict[str, float]:
    """Return what ``device.<fact>`` means for one GPU; see ``references.DEVICE_FACTS``."""
    arch = next(a for a in knowledge.devices.architectures if a.cc == device.cc)
    streamed = device.dram_gbps * device.achievable_dram_share
    peaks = (device.fp32_tflops, device.fp16_tensor_tflops, device.fp8_tensor_tflops or 0.0)
    return {
        "cc": float(device.cc),
        "sm_count": device.sm_count,
        "sm_clock_mhz": device.sm_clock_mhz,
        "l2_bytes": device.l2_mb * 2**20,
        "dram_gbps": device.dram_gbps,
        "achievable_dram_share": device.achievable_dram_share,
        "fp32_tflops": device.fp32_tflops,
        "fp16_tensor_tflops": device.fp16_tensor_tflops,
        "fp64_tflops": device.fp64_tflops,
        "peak_tflops": max(peaks),
        "ridge_fp32": device.fp32_tflops * 1e3 / device.dram_gbps,
        "tensor_flop_us": device.fp16_tensor_tflops * 1e6 * device.achievable_tensor_share,
        "dram_bytes_us": streamed * 1e3,
        **_limits_of(arch),
    }


def _limits_of(arch: Architecture) -> dict[str, float]:
    return {"max_threads_sm": arch.max_threads_sm, "max_blocks_sm": arch.max_blocks_sm}


def _device_names(knowledge: Knowledge) -> dict[str, str]:
    names: dict[str, str] = {}
    for device in knowledge.devices.devices:
        for name in (device.id, device.title, *device.aliases):
            names[" ".join(name.lower().split())] = device.id
    return names
