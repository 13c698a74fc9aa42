"""Compiles the knowledge to the rules that ``kb recommend`` runs.

Topological sorts of the graph give two orders: of derived metrics, each after its operands, and of
bottlenecks. Everything else comes from the records.
"""

from __future__ import annotations

from typing import TypeVar, get_args

import networkx as nx

from kernelkb import __version__
from kernelkb.decide.conditions import DerivedMetric
from kernelkb.decide.device_facts import compute_device_facts
from kernelkb.decide.rules import (
    BottleneckRow,
    CompiledRules,
    GuardRow,
    HardwareTables,
    LeafRow,
    LevelRow,
    LineEvidenceRow,
    LookAlikeRow,
    MetricRow,
    QuestionRow,
    RawNameRow,
    RecipeRow,
    SymptomRow,
    TreeRow,
)
from kernelkb.decide.rules_file import RULES_SCHEMA
from kernelkb.graph.build import Graph, build_graph, extract_truth_flow, find_guarded_bottlenecks
from kernelkb.graph.rows import (
    ComparisonTableBuilder,
    ConditionCompiler,
    build_calibration_rows,
    build_case_rows,
    build_effect_rows,
    build_fix_rows,
    build_library_rows,
    build_time_model_row,
    iter_comparisons,
    list_effort_factors,
    pick_fields,
)
from kernelkb.model.answers.recommendation import KnowledgeStamp
from kernelkb.model.base import Target
from kernelkb.model.entries.bottleneck import Bottleneck, Group, Guard
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.quantities import (
    Device,
    DeviceCatalogue,
    Metric,
    list_quantities,
    parse_formula,
)
from kernelkb.model.entries.workflow import LeadsTo, Tree


def find_base_metrics(knowledge: Knowledge) -> dict[str, list[str]]:
    """Return for each metric the measured metrics and device facts that it follows from.

    A metric that is not derived, or that a tool collects, follows from itself.
    """
    metrics = {m.id: m for m in knowledge.catalogue.metrics}

    def resolve_bases(name: str) -> dict[str, None]:
        metric = metrics.get(name)
        if metric is None or metric.recipe or not metric.derive:
            return {name: None}
        bases: dict[str, None] = {}
        for operand in list_quantities(metric.derive[0]):
            bases.update(resolve_bases(operand))
        return bases

    return {name: list(resolve_bases(name)) for name in metrics}


def build_recipe_rows(knowledge: Knowledge) -> dict[str, RecipeRow]:
    """Return every recipe by id, with the recipes whose metrics it collects too."""
    recipes = {r.id: r for r in knowledge.catalogue.recipes}

    def find_covered(name: str) -> frozenset[str]:
        return frozenset({name}).union(*map(find_covered, recipes[name].includes))

    return {
        r.id: {
            "command": r.command,
            "verb": r.verb,
            "is_own": r.command.startswith("kb "),
            "cost": r.cost,
            "target": r.target,
            "covers": find_covered(r.id),
        }
        for r in recipes.values()
    }


def find_collectors(
    knowledge: Knowledge, recipes: dict[str, RecipeRow]
) -> dict[str, frozenset[str]]:
    """Return for each metric that a tool collects the recipes that collect it."""
    return {
        m.id: frozenset(name for name, row in recipes.items() if m.recipe in row["covers"])
        for m in knowledge.catalogue.metrics
        if m.recipe
    }


def build_device_facts(device: Device, knowledge: Knowledge) -> dict[str, float]:
    """Return the value of each ``device.<fact>`` for one GPU; see ``references.DEVICE_FACTS``."""
    arch = next(a for a in knowledge.devices.architectures if a.cc == device.cc)
    return compute_device_facts(device.model_dump(), arch.model_dump())


def build_hardware_tables(catalogue: DeviceCatalogue) -> HardwareTables:
    """Return every limit and peak of ``devices.yaml``, by compute capability and by device id."""
    unused = {"sources", "aliases"}
    common = catalogue.common  # None only in a project's own file, which is merged already
    return {
        "common": common.model_dump(mode="json", exclude=unused) if common else {},
        "architectures": {
            a.cc: a.model_dump(mode="json", exclude=unused) for a in catalogue.architectures
        },
        "devices": {d.id: d.model_dump(mode="json", exclude=unused) for d in catalogue.devices},
    }


def index_device_names(knowledge: Knowledge) -> dict[str, str]:
    """Return the device id for each id, title and alias of a GPU, in lower case."""
    names: dict[str, str] = {}
    for device in knowledge.devices.devices:
        for name in (device.id, device.title, *device.aliases):
            names[" ".join(name.lower().split())] = device.id
    return names


_GROUPS: tuple[str, ...] = get_args(Group)

Row = TypeVar("Row", BottleneckRow, GuardRow)


def compile_rules(knowledge: Knowledge) -> CompiledRules:
    """Return the compiled rules of a knowledge base."""
    graph = build_graph(knowledge)
    bases = find_base_metrics(knowledge)
    recipes = build_recipe_rows(knowledge)
    collectors = find_collectors(knowledge, recipes)
    comparisons = ComparisonTableBuilder(bases, collectors)
    conditions = ConditionCompiler(knowledge, comparisons)
    return {
        "schema": RULES_SCHEMA,
        "knowledge": _build_stamp(knowledge),
        "metrics": {m.id: _build_metric_row(m) for m in knowledge.catalogue.metrics},
        "derived": _order_derived_metrics(graph),
        "bases": {m: inputs for m, inputs in bases.items() if inputs != [m]},
        "raw_names": _build_raw_name_rows(knowledge),
        "recipes": recipes,
        "collectors": collectors,
        "limits": _list_device_dependent_limits(knowledge),
        "devices": {d.id: build_device_facts(d, knowledge) for d in knowledge.devices.devices},
        "device_names": index_device_names(knowledge),
        "hardware": build_hardware_tables(knowledge.devices),
        "bottlenecks": _group_by_target(
            [_build_bottleneck_row(b, knowledge, conditions) for b in _order_bottlenecks(graph)]
        ),
        "line_evidence": _build_line_rows(knowledge),
        "guards": _group_by_target(
            [_build_guard_row(g, knowledge, conditions) for g in knowledge.guards.guards]
        ),
        "trees": {tree.id: _build_tree_row(tree, conditions) for tree in knowledge.trees},
        "fixes": build_fix_rows(knowledge, conditions),
        "cases": build_case_rows(knowledge),
        "libraries": build_library_rows(knowledge),
        "time_model": build_time_model_row(knowledge),
        "effects": build_effect_rows(knowledge, conditions),
        "learned": build_calibration_rows(knowledge),
        "effort": list_effort_factors(knowledge),
        "levels": _build_level_rows(knowledge),
        "symptoms": _build_symptom_rows(knowledge),
        "comparisons": comparisons.table,
    }


def _build_stamp(knowledge: Knowledge) -> KnowledgeStamp:
    return {
        "version": __version__,
        "sha256": knowledge.sha256,
        "overlay": knowledge.overlay,
    }


def _list_device_dependent_limits(knowledge: Knowledge) -> dict[str, dict[str, float]]:
    """Return the thresholds that differ between GPUs; the others are numbers in comparisons."""
    return {
        f"limit.{t.id}": {"": t.value, **t.by_device}
        for t in knowledge.thresholds.thresholds
        if t.by_device
    }


def _group_by_target(rows: list[Row]) -> dict[str, list[Row]]:
    return {target: [r for r in rows if r["target"] == target] for target in get_args(Target)}


def _build_level_rows(knowledge: Knowledge) -> dict[str, LevelRow]:
    return {
        f"{row.target}/{row.level}": pick_fields(row, LevelRow) for row in knowledge.guards.levels
    }


def _build_symptom_rows(knowledge: Knowledge) -> list[SymptomRow]:
    return [
        pick_fields(symptom, SymptomRow, kind=family.family)
        for family in knowledge.symptoms
        for symptom in family.symptoms
    ]


def _build_raw_name_rows(knowledge: Knowledge) -> dict[str, RawNameRow]:
    return {
        m.id: {
            "names": list(m.raw["ncu"]),
            "scale": m.raw_scale,
            "titles": list(m.raw.get("ncu-details", ())),
            "rule_patterns": list(m.raw.get("ncu-rules", ())),
            "zero_is_value": m.raw_zero == "known",
        }
        for m in knowledge.catalogue.metrics
        if "ncu" in m.raw
    }


def _build_metric_row(metric: Metric) -> MetricRow:
    return {
        "unit": metric.unit,
        "low": metric.range[0],
        "high": metric.range[1],
        "level": metric.level,
        "targets": list(metric.targets),
        "flag": metric.flag,
        "recipe": metric.recipe,
    }


def _metric_dependency_view(graph: Graph) -> Graph:
    def is_metric_dependency(a: str, b: str) -> bool:
        return graph.edges[a, b]["kind"] == "feeds" and b.startswith("metric:")

    part: Graph = nx.subgraph_view(graph, filter_edge=is_metric_dependency)
    return part


def _order_derived_metrics(graph: Graph) -> list[DerivedMetric]:
    """Return the derived metrics, each after its operands."""
    rows: list[DerivedMetric] = []
    for node in nx.lexicographical_topological_sort(_metric_dependency_view(graph)):
        record = graph.nodes[node].get("record")
        if isinstance(record, Metric) and record.derive:
            rows += [
                DerivedMetric(record.id, list(parse_formula(text)), list_quantities(text))
                for text in record.derive
            ]
    return rows


def _order_bottlenecks(graph: Graph) -> list[Bottleneck]:
    """Return the bottlenecks in evaluation order: by group, then by topological sort."""
    position = {group: at for at, group in enumerate(_GROUPS)}
    order = [
        graph.nodes[node]["record"]
        for node in nx.lexicographical_topological_sort(extract_truth_flow(graph))
        if graph.nodes[node]["kind"] == "bottleneck"
    ]
    return sorted(order, key=lambda b: position[b.group])


def _build_line_rows(knowledge: Knowledge) -> dict[str, list[LineEvidenceRow]]:
    return {
        b.id: [pick_fields(one, LineEvidenceRow) for one in b.lines]
        for b in knowledge.bottlenecks
        if b.lines
    }


def _build_bottleneck_row(
    b: Bottleneck, knowledge: Knowledge, conditions: ConditionCompiler
) -> BottleneckRow:
    source = _format_sources(b.id, b.sources, knowledge)
    when = conditions.compile(b.when, source)
    unless = [
        pick_fields(other, LookAlikeRow, when=conditions.compile(other.when, source))
        for other in b.unless
    ]
    hint = None if b.hint is None else conditions.compile(b.hint, source)
    parts = (when, *([] if hint is None else [hint]), *(row["when"] for row in unless))
    positions = [position for part in parts for position in iter_comparisons(part)]
    return pick_fields(
        b,
        BottleneckRow,
        when=when,
        hint=hint,
        data=None if b.data is None else conditions.compile(b.data, source),
        unless=unless,
        weight=getattr(knowledge.calibration.weights, b.evidence),
        hint_weight=b.hint_weight or knowledge.calibration.weights.hint,
        comparisons=list(dict.fromkeys(positions)),
        requirements=conditions.comparisons.find_requirements(b.id, when),
    )


def _format_sources(name: str, sources: tuple[str, ...], knowledge: Knowledge) -> str:
    own = "the project's own knowledge: " if name in knowledge.own else ""
    return own + ", ".join(sources)


def _build_guard_row(guard: Guard, knowledge: Knowledge, conditions: ConditionCompiler) -> GuardRow:
    return pick_fields(
        guard,
        GuardRow,
        when=conditions.compile(guard.when, _format_sources(guard.id, guard.sources, knowledge)),
        bottlenecks=find_guarded_bottlenecks(guard, knowledge.bottlenecks),
    )


def _build_tree_row(tree: Tree, conditions: ConditionCompiler) -> TreeRow:
    source = ", ".join(tree.sources)
    return {
        "root": tree.root,
        "questions": {
            q.id: pick_fields(q, QuestionRow, when=conditions.compile(q.when, source))
            for q in tree.questions
        },
        "leaves": {
            leaf.id: pick_fields(leaf, LeafRow, fixes=list((leaf.leads_to or LeadsTo()).fixes))
            for leaf in tree.leaves
        },
    }
