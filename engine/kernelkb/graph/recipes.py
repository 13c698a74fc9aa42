"""Finds the recipes that collect each metric, and the measured metrics behind a derived one."""

from __future__ import annotations

from kernelkb.decide.rules import RecipeRow
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.metric import list_quantities


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
