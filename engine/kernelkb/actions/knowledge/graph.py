"""Draws a decision tree or a bottleneck, with the path that some metrics take through it."""

from __future__ import annotations

from collections.abc import Mapping

from kernelkb.actions.advice.recommend import parse_given_metrics
from kernelkb.actions.knowledge.knowledge import load_project_knowledge
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.conditions import evaluate_comparisons
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.diagnose import judge_bottleneck
from kernelkb.decide.gates import walk_gate_tree
from kernelkb.decide.parse_metric import resolve_device
from kernelkb.errors import UnknownNameError
from kernelkb.graph.picture import Picture, build_bottleneck_picture, build_tree_picture
from kernelkb.render.documents.entries import describe_condition


def draw_picture(
    name: str,
    metrics: Mapping[str, str | float],
    headlines: Mapping[str, str | float],
    *,
    target: str = "cuda",
    gpu: str | None = None,
) -> Picture:
    """Return the picture of a tree or of a bottleneck.

    Args:
        name: Id of a tree or of a bottleneck.
        metrics: Values by metric id; with none, no path is highlighted.
        headlines: Values by headline flag.
        target: ``cuda`` or ``cpu``: the hardware of the headline values.
        gpu: Any name of the GPU, or None.

    Raises:
        UnknownNameError: No such tree, bottleneck, metric or GPU.
        BadValueError: A value that its metric cannot have.
    """
    knowledge, program = load_project_knowledge(), load_compiled_rules()
    given = parse_given_metrics(program, metrics, headlines, target)
    device = resolve_device(program, gpu) if gpu else None
    known = complete_metrics(program, given, device)
    facts = evaluate_comparisons(program["comparisons"], known)
    for tree in knowledge.trees:
        if tree.id == name:
            walked = walk_gate_tree(program["trees"][tree.id], facts) if given else None
            limits = {t.id: t.value for t in knowledge.thresholds.thresholds}
            texts = {q.id: describe_condition(q.when, limits) for q in tree.questions}
            return build_tree_picture(tree, walked, texts)
    rows = {row["id"]: row for found in program["bottlenecks"].values() for row in found}
    for bottleneck in knowledge.bottlenecks:
        if bottleneck.id == name:
            shown = known if given else {}
            judged = judge_bottleneck(rows[name], facts.truth)
            return build_bottleneck_picture(bottleneck, knowledge, shown, judged)
    names = [tree.id for tree in knowledge.trees] + list(rows)
    raise UnknownNameError("tree or bottleneck", name, names, "show", id="trees")
