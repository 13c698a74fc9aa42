"""Pictures of trees and bottlenecks, with the path that metrics take."""

from __future__ import annotations

from collections.abc import Mapping

from kernelkb.actions.knowledge import here
from kernelkb.actions.recommend import given_metrics
from kernelkb.actions.rules_cache import decision_program
from kernelkb.decide.conditions import compare
from kernelkb.decide.derive import complete
from kernelkb.decide.diagnose import verdict
from kernelkb.decide.gates import walk
from kernelkb.decide.parse_metric import device_named
from kernelkb.errors import UnknownNameError
from kernelkb.graph.picture import Picture, of_bottleneck, of_tree
from kernelkb.render.conditions import said


def picture(
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
        metrics: Values by metric id; without any nothing is highlighted.
        headlines: Values by headline flag.
        target: Which hardware the headlines are from.
        gpu: Any name of the GPU, or None.

    Raises:
        UnknownNameError: No such tree, bottleneck, metric or GPU.
        BadValueError: A value that its metric cannot have.
    """
    knowledge, program = here(), decision_program()
    given = given_metrics(program, metrics, headlines, target)
    device = device_named(program, gpu) if gpu else None
    known = complete(program, given, device)
    facts = compare(program["comparisons"], known)
    for tree in knowledge.trees:
        if tree.id == name:
            walked = walk(program["trees"][tree.id], facts) if given else None
            limits = {t.id: t.value for t in knowledge.thresholds.thresholds}
            return of_tree(tree, walked, {q.id: said(q.when, limits) for q in tree.questions})
    rows = {row["id"]: row for found in program["bottlenecks"].values() for row in found}
    for bottleneck in knowledge.bottlenecks:
        if bottleneck.id == name:
            shown = known if given else {}
            return of_bottleneck(bottleneck, knowledge, shown, verdict(rows[name], facts.truth))
    names = [tree.id for tree in knowledge.trees] + list(rows)
    raise UnknownNameError("tree or bottleneck", name, names, "kb show trees")
