"""What to measure next: the most hypotheses settled for the least collecting.

A recipe is worth, to each open hypothesis, the chance that its metrics settle it. Most hypotheses
are false, so what can exclude counts for most; what could only confirm counts little.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kernelkb.decide.conditions import Facts, find_missing_quantities
from kernelkb.decide.diagnose import BottleneckMatch, OpenBottleneck

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules, FlatCondition
    from kernelkb.model.recommendation import Measure


_MAX_ROWS = 10
"""Rows worth reading; the first recipe usually settles the rest."""

_MAX_ROWS_PER_RECIPE = 6
"""Rows of one recipe, so that a cheap one does not hide behind a large one."""

_MAX_HYPOTHESES_PER_METRIC = 8
"""Hypotheses named for one metric."""

_MAX_RECIPES = 4
"""Recipes in one answer."""

_PRIOR_PROBABILITY = 0.1
"""Prior chance that a hypothesis is true: about one in ten of those that are still open."""

_EVIDENCE_WEIGHT = 2
"""How many times more than a coincidence a part that holds speaks for the whole (judgement)."""

_ALL_RECIPES = -1
"""All bits set: settled already, whatever is collected."""


DecidingRecipes: TypeAlias = tuple[int, int, float]
"""Open conditions of one kind: the recipes, as bits, that could make them false, those that could
make them true, and how likely they are true."""


def choose_next_measurements(
    rules: CompiledRules,
    matches: Iterable[BottleneckMatch],
    open_bottlenecks: Iterable[OpenBottleneck],
    facts: Facts,
    kernel: str,
    target: str,
    gate_metrics: Iterable[str],
) -> list[Measure]:
    """Return metrics to collect, those of the most valuable recipe first.

    Args:
        rules: Knows the metrics and how to collect them.
        matches: Diagnoses, whose look-alikes may be open.
        open_bottlenecks: Bottlenecks that are unknown, the best supported first.
        facts: What is known, and so is not asked for again.
        kernel: Name to put into the commands; empty for a placeholder.
        target: cpu or cuda.
        gate_metrics: Metrics that the gate wants, whatever the hypotheses need.
    """
    wanted: dict[str, list[str]] = {name: [] for name in gate_metrics}
    stakes: dict[DecidingRecipes, float] = {}
    masks = _build_recipe_masks(rules, facts)
    for name, stake, weight, asks in _iter_undecided(
        rules, matches, open_bottlenecks, facts, masks
    ):
        stakes[stake] = stakes.get(stake, 0.0) + weight
        for metric in asks:
            if metric in wanted:
                wanted[metric].append(name)
            else:
                wanted[metric] = [name]
    rows = [_build_row(rules, name, [], kernel, target) for name in gate_metrics]
    for recipe, names in _choose_recipes(rules, wanted, stakes, set(gate_metrics), target):
        rows += [_build_row(rules, n, wanted[n], kernel, target, recipe) for n in names]
        if len(rows) >= _MAX_ROWS:
            break
    return rows[:_MAX_ROWS]


def _choose_recipes(
    rules: CompiledRules,
    wanted: Mapping[str, list[str]],
    weights: Mapping[DecidingRecipes, float],
    excluded: Container[str],
    target: str,
) -> Iterator[tuple[str, list[str]]]:
    """Yield recipes, the most valuable first, with the wanted metrics that each adds."""
    by_recipe = _group_by_recipe(rules, wanted, excluded)
    for recipe in _rank_recipes(rules, weights, target):
        bits = rules["recipes"][recipe]["collects"]
        inside = [one for at, found in by_recipe.items() if bits >> at & 1 for one in found]
        by_recipe = {at: found for at, found in by_recipe.items() if not bits >> at & 1}
        yield recipe, [name for *_, name in sorted(inside)[:_MAX_ROWS_PER_RECIPE]]


def _iter_undecided(
    rules: CompiledRules,
    matches: Iterable[BottleneckMatch],
    open_bottlenecks: Iterable[OpenBottleneck],
    facts: Facts,
    masks: Sequence[int],
) -> Iterator[tuple[str, DecidingRecipes, int, list[str]]]:
    """Yield for each open condition whose it is, its stake, its weight, and what it asks for.

    The more of a condition holds already, the likelier it is and the more settling it counts.
    """
    for finding in matches:
        for condition in finding.open_conditions:
            stake = (*find_deciding_recipes(condition, facts.truth, masks), _PRIOR_PROBABILITY)
            asks = _expand_to_collectable(rules, find_missing_quantities(condition, facts), facts)
            yield finding.row["id"], stake, 1, asks
    for row, held in open_bottlenecks:
        hint = row["hint"]
        if held is None:
            yield row["id"], (hint["false"], hint["true"], _PRIOR_PROBABILITY), 1, hint["asks"]
            continue
        likely = 1 - (1 - _PRIOR_PROBABILITY) ** (1 + _EVIDENCE_WEIGHT * held)
        stake = (*find_deciding_recipes(row["when"], facts.truth, masks), likely)
        yield (
            row["id"],
            stake,
            1 + held,
            _expand_to_collectable(rules, find_missing_quantities(row["when"], facts), facts),
        )


def _build_recipe_masks(rules: CompiledRules, facts: Facts) -> list[int]:
    """Return for each open leaf the recipes, as bits, that collect what it still lacks."""
    table, known, collectors = rules["comparisons"], facts.values, rules["collectors"]
    masks = table["collected_by"].copy()
    for leaf in facts.touched_leaves:
        if facts.truth[leaf] is None:
            mask = _ALL_RECIPES
            for name in table["needs"][leaf]:
                if name not in known:
                    mask &= collectors.get(name, 0)
            masks[leaf] = mask if mask != _ALL_RECIPES else 0
    return masks


def find_deciding_recipes(
    condition: FlatCondition, truth: Sequence[bool | None], masks: Sequence[int]
) -> tuple[int, int]:
    """Return the recipes, as bits, that could make a condition false, and true."""
    if condition.__class__ is int:
        value = truth[condition]
        if value is None:
            return masks[condition], masks[condition]
        return (0, _ALL_RECIPES) if value else (_ALL_RECIPES, 0)
    kind = condition[0]
    if kind == "not":
        false, true = find_deciding_recipes(condition[1], truth, masks)
        return true, false
    some, every = 0, _ALL_RECIPES
    for part in condition[1:]:
        if part.__class__ is int and truth[part] is None:
            settled = masks[part]
            some |= settled
            every &= settled
            continue
        false, true = find_deciding_recipes(part, truth, masks)
        some |= false if kind == "all" else true
        every &= true if kind == "all" else false
    return (some, every) if kind == "all" else (every, some)


def _rank_recipes(
    rules: CompiledRules, weights: Mapping[DecidingRecipes, float], target: str
) -> Iterator[str]:
    """Yield the recipes that could settle something, the most settled for its cost first.

    What the recipes before could exclude already counts only as far as it would still be open.
    """
    open_ = [(f, t, n * (1 - p), n * p) for (f, t, p), n in weights.items()]
    recipes = rules["recipes"].items()
    bits = {n: 1 << at for at, (n, r) in enumerate(recipes) if r["target"] in (None, target)}
    for _ in range(min(_MAX_RECIPES, len(bits))):
        best, most = "", 0.0
        for name, bit in bits.items():
            settled = 0.0
            for false, true, if_false, if_true in open_:
                if false & bit:
                    settled += if_false
                if true & bit:
                    settled += if_true
            worth = settled / rules["recipes"][name]["cost"]
            if worth > most:
                best, most = name, worth
        if not best:
            return
        yield best
        bit = bits.pop(best)
        left = [
            1
            - ((if_false if f & bit else 0.0) + (if_true if t & bit else 0.0))
            / (if_false + if_true)
            for f, t, if_false, if_true in open_
        ]
        open_ = [(f, t, x * n, y * n) for (f, t, x, y), n in zip(open_, left, strict=True) if n > 0]


def _group_by_recipe(
    rules: CompiledRules, wanted: Mapping[str, list[str]], excluded: Container[str]
) -> dict[int, list[tuple[str, int, int, str]]]:
    """Return the wanted metrics under the position of the recipe that collects each.

    Each with its rank: by evidence level, then by how many hypotheses want it, then as first asked.
    """
    position = {name: at for at, name in enumerate(rules["recipes"])}
    metrics = rules["metrics"]
    found: dict[int, list[tuple[str, int, int, str]]] = {}
    for at, (name, wishes) in enumerate(wanted.items()):
        if name not in excluded:
            row = metrics[name]
            place = position[row["recipe"] or ""]
            found.setdefault(place, []).append((row["level"], -len(wishes), at, name))
    return found


def _expand_to_collectable(rules: CompiledRules, names: Iterable[str], facts: Facts) -> list[str]:
    """Replace derived metrics by what they follow from; drop what is known or not collectable."""
    bases, collectors, known = rules["bases"], rules["collectors"], facts.values
    found: dict[str, None] = {}
    for name in names:
        if name not in bases:
            if name in collectors:
                found[name] = None
            continue
        for base in bases[name]:
            if base in collectors and base not in known:
                found[base] = None
    return list(found)


def _build_row(
    rules: CompiledRules,
    name: str,
    separates: list[str],
    kernel: str,
    target: str,
    recipe: str | None = None,
) -> Measure:
    row = rules["recipes"][recipe or rules["metrics"][name]["recipe"] or ""]
    command = row["command"].replace("{kernel}", _strip_kernel_signature(kernel) or "<kernel>")
    return {
        "metric": name,
        "separates": list(dict.fromkeys(separates))[:_MAX_HYPOTHESES_PER_METRIC],
        "cost": row["cost"],
        "command": command.replace("{target}", target),
    }


def _strip_kernel_signature(kernel: str) -> str:
    """Return a kernel's name without return type, arguments and name space, fit for a command."""
    words = kernel.partition("<")[0].partition("(")[0].split()
    return words[-1].rpartition("::")[2] if words else ""
