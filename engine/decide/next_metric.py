"""What to measure next: the most hypotheses settled for the least collecting.

A recipe is worth, to each open hypothesis, the chance that its metrics settle it. Most hypotheses
are false, so what can exclude counts for most; what could only confirm counts little.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.decide.answer import Measure
from engine.decide.conditions import Facts, missing
from engine.decide.diagnose import Finding
from engine.decide.program import Condition, Program

_AT_MOST = 10
"""Rows worth reading; the first recipe usually settles the rest."""

_OF_ONE_RECIPE = 6
"""Rows of one recipe, so that a cheap one does not hide behind a large one."""

_CONSIDERED = 200
"""Hypotheses, the best supported first; those beyond say nothing that these do not."""

_LIKELY = 0.1
"""Prior chance that a hypothesis is true: about one in ten of those that are still open."""

_EVERY = -1
"""All bits set: settled already, whatever is collected."""


def measure_next(
    program: Program,
    findings: Iterable[Finding],
    facts: Facts,
    kernel: str,
    target: str,
    extra: Iterable[str],
) -> list[Measure]:
    """Return metrics to collect, those of the most valuable recipe first.

    Args:
        program: Knows the metrics and how to collect them.
        findings: Matches with open look-alikes, and unknowns, the best supported first.
        facts: What is known, and so is not asked for again.
        kernel: Name to put into the commands; empty for a placeholder.
        target: cpu or cuda.
        extra: Metrics that the gate wants, whatever the hypotheses need.
    """
    hypotheses = [(f.row["id"], c) for f in list(findings)[:_CONSIDERED] for c in f.open]
    recipes = list(program["recipes"])
    order = _by_worth(program, hypotheses, facts, target)
    wanted: dict[str, dict[str, None]] = {name: {} for name in extra}
    for hypothesis, condition in hypotheses:
        for name in _collectable(program, missing(condition, facts), facts):
            wanted.setdefault(name, {})[hypothesis] = None
    rows = [_row(program, name, [], kernel, target) for name in extra]
    taken = set(extra)
    for recipe in order:
        bits = program["recipes"][recipe]["collects"]
        inside = [
            name
            for name in wanted
            if name not in taken and bits >> recipes.index(_recipe_of(program, name)) & 1
        ]
        inside.sort(key=lambda name: -len(wanted[name]))
        taken.update(inside)
        chosen = inside[:_OF_ONE_RECIPE]
        rows += [_row(program, n, list(wanted[n]), kernel, target, recipe) for n in chosen]
        if len(rows) >= _AT_MOST:
            break
    return rows[:_AT_MOST]


def _by_worth(
    program: Program, hypotheses: list[tuple[str, Condition]], facts: Facts, target: str
) -> list[str]:
    """Return the recipes that could settle something, the most settled for its cost first."""
    masks = _leaf_masks(program, facts)
    sides = [_sides(condition, facts.truth, masks) for _, condition in hypotheses]
    worth: dict[str, float] = {}
    for position, (name, recipe) in enumerate(program["recipes"].items()):
        bit = 1 << position
        excluded = sum(1 for false, _ in sides if false & bit)
        confirmed = sum(1 for _, true in sides if true & bit)
        value = (1 - _LIKELY) * excluded + _LIKELY * confirmed
        if value and recipe["target"] in (None, target):
            worth[name] = value / recipe["cost"]
    return sorted(worth, key=lambda name: -worth[name])


def _leaf_masks(program: Program, facts: Facts) -> dict[int, int]:
    """Return for each open leaf the recipes (as bits) that collect all that it lacks."""
    recipes = program["recipes"]
    collectors: dict[str, int] = {}
    for position, name in enumerate(recipes):
        collectors[name] = sum(
            1 << at for at, row in enumerate(recipes.values()) if row["collects"] >> position & 1
        )
    masks: dict[int, int] = {}
    for leaf, needs in enumerate(facts.table["needs"]):
        if facts.truth[leaf] is None:
            mask = _EVERY
            for name in needs:
                if name not in facts.known:
                    recipe = program["metrics"][name]["recipe"]
                    mask &= collectors[recipe] if recipe else 0
            masks[leaf] = mask if mask != _EVERY else 0
    return masks


def _sides(
    condition: Condition, truth: list[bool | None], masks: dict[int, int]
) -> tuple[int, int]:
    """Return the recipes that could make a condition false, and those that could make it true."""
    if condition.__class__ is int:
        value = truth[condition]
        if value is None:
            return masks[condition], masks[condition]
        return (0, _EVERY) if value else (_EVERY, 0)
    parts = [_sides(part, truth, masks) for part in condition[1:]]
    if condition[0] == "not":
        return parts[0][1], parts[0][0]
    either, both = (0, 1) if condition[0] == "all" else (1, 0)
    some, every = 0, _EVERY
    for part in parts:
        some |= part[either]
        every &= part[both]
    return (some, every) if condition[0] == "all" else (every, some)


def _collectable(program: Program, names: Iterable[str], facts: Facts) -> list[str]:
    """Replace derived metrics by what they follow from; drop what is known or not collectable."""
    bases = program["bases"]
    found: dict[str, None] = {}
    for name in names:
        for base in bases.get(name, (name,)):
            row = program["metrics"].get(base)
            if row and base not in facts.known and row["recipe"]:
                found[base] = None
    return list(found)


def _recipe_of(program: Program, name: str) -> str:
    return program["metrics"][name]["recipe"] or ""


def _row(
    program: Program,
    name: str,
    separates: list[str],
    kernel: str,
    target: str,
    recipe: str | None = None,
) -> Measure:
    row = program["recipes"][recipe or _recipe_of(program, name)]
    command = row["command"].replace("{kernel}", kernel or "<kernel>")
    return {
        "metric": name,
        "separates": separates,
        "cost": row["cost"],
        "command": command.replace("{target}", target),
    }
