"""Which tool collects which metric, and what derived metrics come down to."""

from __future__ import annotations

from kernelkb.decide.rules import RecipeRow
from kernelkb.model.knowledge import Knowledge


def find_base_metrics(knowledge: Knowledge) -> dict[str, list[str]]:
    """Return what each metric comes down to: itself where a tool collects it."""
    metrics = {m.id: m for m in knowledge.catalogue.metrics}

    def resolve_bases(name: str) -> dict[str, None]:
        metric = metrics.get(name)
        if metric is None or metric.recipe or metric.derive is None:
            return {name: None}
        found: dict[str, None] = {}
        for operand in metric.derive.of:
            if isinstance(operand, str):
                found.update(resolve_bases(operand))
        return found

    return {name: list(resolve_bases(name)) for name in metrics}


def build_recipe_rows(knowledge: Knowledge) -> dict[str, RecipeRow]:
    """Return every recipe, with what it collects besides its own metrics."""
    recipes = {r.id: r for r in knowledge.catalogue.recipes}
    position = {name: at for at, name in enumerate(recipes)}

    def collected_bits(name: str) -> int:
        bits = 1 << position[name]
        for inner in recipes[name].includes:
            bits |= collected_bits(inner)
        return bits

    return {
        r.id: {
            "command": r.command,
            "cost": r.cost,
            "target": r.target,
            "collects": collected_bits(r.id),
        }
        for r in recipes.values()
    }


def find_collectors(knowledge: Knowledge, recipes: dict[str, RecipeRow]) -> dict[str, int]:
    """Return the recipes, as bits, that collect each metric."""
    position = {name: at for at, name in enumerate(recipes)}
    return {
        m.id: sum(
            1 << at
            for at, row in enumerate(recipes.values())
            if row["collects"] >> position[m.recipe] & 1
        )
        for m in knowledge.catalogue.metrics
        if m.recipe
    }
