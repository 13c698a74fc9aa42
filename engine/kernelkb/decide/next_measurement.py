"""Chooses the metrics to measure next: those that decide most unknown bottlenecks for their cost.

Selection is greedy. A hypothesis is a bottleneck, or a look-alike of one, whose condition is still
unknown. The value of a recipe is the sum, over the hypotheses, of the chance that its metrics
decide them. Most hypotheses are false, so a recipe that can exclude one counts more than a recipe
that can only confirm it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.decide.conditions import (
    DecidingRecipes,
    Facts,
    OpenCondition,
    find_missing_quantities,
)
from kernelkb.decide.diagnose import LEAST_SURE
from kernelkb.errors import NextStep
from kernelkb.model.answers.next_step import ToolCommand

if TYPE_CHECKING:
    from kernelkb.decide.conditions import Condition
    from kernelkb.decide.diagnose import BottleneckMatch, OpenBottlenecks
    from kernelkb.decide.rules import CompiledRules, RecipeRow
    from kernelkb.model.answers.next_step import Step
    from kernelkb.model.answers.recommendation import Measure


_MAX_ROWS = 10
"""Metrics in one answer; the first recipe usually decides the rest."""

_MAX_ROWS_PER_RECIPE = 6
"""Metrics of one recipe, so that a large one leaves room for a cheap one."""

_MAX_HYPOTHESES_PER_METRIC = 8
"""Hypotheses named for one metric."""

_MAX_RECIPES = 4
"""Recipes in one answer."""

_PRIOR_PROBABILITY = 0.1
"""Prior chance that an unknown hypothesis is true (judgement)."""

_EVIDENCE_WEIGHT = 2
"""Factor by which a comparison that holds raises the odds of its hypothesis (judgement)."""

_NO_RECIPES: frozenset[str] = frozenset()


class NextMeasurements(NamedTuple):
    """The metrics to measure next."""

    rows: list[Measure]
    """Those of the most valuable recipe first."""
    step: Step | None
    """The command of the first row; None without rows."""


def build_untouched_condition(
    bottleneck: str, recipes: DecidingRecipes, metrics: list[str]
) -> OpenCondition:
    """Return the condition of a bottleneck while no quantity in it is known."""
    return OpenCondition(bottleneck, recipes, _PRIOR_PROBABILITY, 1, metrics)


class _Stake(NamedTuple):
    """The summed weight of all unknown conditions with the same recipes and probability."""

    recipes: DecidingRecipes
    if_false: float
    """Weight × probability that the conditions are false, which excluding recipes can show."""
    if_true: float
    """Weight × probability that the conditions are true, which confirming recipes can show."""


def choose_next_measurements(
    rules: CompiledRules,
    matches: Sequence[BottleneckMatch],
    open_bottlenecks: OpenBottlenecks,
    facts: Facts,
    kernel: str,
    target: str,
    gate_metrics: Iterable[str],
) -> NextMeasurements:
    """Return the metrics to collect, those of the most valuable recipe first.

    Args:
        rules: The compiled rules: metrics and how to collect them.
        matches: Best first. What decides the first, if it is a guess, comes before all else.
        open_bottlenecks: Unknown bottlenecks, those with the most true comparisons first.
        facts: Known quantities, which are not requested again.
        kernel: Name to put into the commands; may be empty.
        target: ``cpu`` or ``cuda``.
        gate_metrics: Metrics that the gate needs; they come first.
    """
    conditions = _iter_open_conditions(rules, matches, open_bottlenecks, facts)
    wanted, stakes = _sum_conditions(conditions)
    name = strip_kernel_signature(kernel)
    chosen: list[tuple[str, list[str]]] = []
    rows: list[Measure] = []
    for metric in gate_metrics:
        recipe = rules["metrics"][metric]["recipe"] or ""
        chosen.append((recipe, [metric]))
        rows.append(_build_row(rules, metric, recipe, [], name, target))
        wanted.pop(metric, None)
    guess = _find_guess(rules, matches, facts)
    for recipe, names in [*guess, *_choose_recipes(rules, wanted, stakes, target)]:
        chosen.append((recipe, names))
        more = [n for n in names if n in wanted and n not in {row["metric"] for row in rows}]
        rows += [_build_row(rules, n, recipe, wanted[n], name, target) for n in more]
        if len(rows) >= _MAX_ROWS:
            break
    first = next((recipe for recipe, names in chosen if names), None)
    step = None if first is None else _make_step(rules["recipes"][first], name, target)
    return NextMeasurements(rows[:_MAX_ROWS], step)


def _find_guess(
    rules: CompiledRules, matches: Sequence[BottleneckMatch], facts: Facts
) -> list[tuple[str, list[str]]]:
    """Return a recipe with the metrics that decide a first cause which is only a guess."""
    if not matches or matches[0].diagnosis["confidence"] >= LEAST_SURE:
        return []
    open_ = matches[0].open_conditions[-1:]  # its own, where a hint speaks for it
    lacking = [name for when in open_ for name in find_missing_quantities(when, facts)]
    names = _expand_to_collectable(rules, lacking, facts)
    by_recipe = _group_by_recipe(rules, {name: [matches[0].row["id"]] for name in names})
    recipe = max(by_recipe, key=lambda one: len(by_recipe[one]), default="")
    ranked = [name for *_, name in by_recipe.get(recipe, [])]
    return [(recipe, ranked[:_MAX_ROWS_PER_RECIPE])] if ranked else []


def _sum_conditions(
    conditions: Iterable[OpenCondition],
) -> tuple[dict[str, list[str]], list[_Stake]]:
    """Return the bottlenecks that need each metric, and the summed weights."""
    wanted: dict[str, list[str]] = {}
    weights: dict[tuple[DecidingRecipes, float], int] = {}
    for name, recipes, probability, weight, metrics in conditions:
        key = (recipes, probability)
        weights[key] = weights.get(key, 0) + weight
        for metric in metrics:
            wanted.setdefault(metric, []).append(name)
    return wanted, [_Stake(recipes, n * (1 - p), n * p) for (recipes, p), n in weights.items()]


def _choose_recipes(
    rules: CompiledRules, wanted: Mapping[str, list[str]], stakes: list[_Stake], target: str
) -> Iterator[tuple[str, list[str]]]:
    """Yield each recipe, most valuable first, with the ranked metrics that it adds."""
    by_recipe = _group_by_recipe(rules, wanted)
    for recipe in _rank_recipes(rules, stakes, target):
        covered = by_recipe.keys() & rules["recipes"][recipe]["covers"]
        ranked = sorted(metric for name in covered for metric in by_recipe.pop(name))
        yield recipe, [name for *_, name in ranked[:_MAX_ROWS_PER_RECIPE]]


def _iter_open_conditions(
    rules: CompiledRules,
    matches: Iterable[BottleneckMatch],
    open_bottlenecks: OpenBottlenecks,
    facts: Facts,
) -> Iterator[OpenCondition]:
    """Yield the undecided conditions of look-alikes, then those of bottlenecks."""
    by_comparison = _list_deciding_recipes(rules, facts)
    for match in matches:
        for when in match.open_conditions:
            deciding = find_deciding_recipes(when, by_comparison)
            metrics = _expand_to_collectable(rules, find_missing_quantities(when, facts), facts)
            yield OpenCondition(match.row["id"], deciding, _PRIOR_PROBABILITY, 1, metrics)
    for row in open_bottlenecks.rows:
        held_count = open_bottlenecks.held_counts.get(row["id"])
        if held_count is None:
            yield row["requirements"]["untouched"]
            continue
        deciding = find_deciding_recipes(row["when"], by_comparison)
        probability = 1 - (1 - _PRIOR_PROBABILITY) ** (1 + _EVIDENCE_WEIGHT * held_count)
        metrics = _expand_to_collectable(rules, find_missing_quantities(row["when"], facts), facts)
        yield OpenCondition(row["id"], deciding, probability, 1 + held_count, metrics)


def _list_deciding_recipes(rules: CompiledRules, facts: Facts) -> list[DecidingRecipes]:
    """Return for each comparison the recipes that could still decide it."""
    table, known, collectors = rules["comparisons"], facts.values, rules["collectors"]
    recipes = frozenset(rules["recipes"])
    holds, fails = DecidingRecipes(_NO_RECIPES, recipes), DecidingRecipes(recipes, _NO_RECIPES)
    deciding = table["deciding"].copy()
    for position in facts.touched:
        outcome = facts.truth[position]
        if outcome is None:
            lacking = [name for name in table["needs"][position] if name not in known]
            collecting = find_common_recipes(lacking, collectors)
            deciding[position] = DecidingRecipes(collecting, collecting)
        else:
            deciding[position] = holds if outcome else fails
    return deciding


def find_common_recipes(
    metrics: Iterable[str], collectors: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Return the recipes that collect all of some metrics; none for no metrics."""
    sets = [collectors.get(name, _NO_RECIPES) for name in metrics]
    return sets[0].intersection(*sets[1:]) if sets else _NO_RECIPES


def find_deciding_recipes(
    condition: Condition, deciding: Sequence[DecidingRecipes]
) -> DecidingRecipes:
    """Return the recipes that could make a condition false, and those that could make it true.

    Args:
        condition: The condition.
        deciding: For each comparison the recipes that could decide it. One that is decided already
            needs none: all recipes give its outcome, and none the opposite.
    """
    if isinstance(condition, int):
        return deciding[condition]
    kind, parts = condition
    found = [
        deciding[p] if isinstance(p, int) else find_deciding_recipes(p, deciding) for p in parts
    ]
    excluding, confirming = [part.excluding for part in found], [part.confirming for part in found]
    if kind == "not":
        return DecidingRecipes(confirming[0], excluding[0])
    if kind == "all":  # one false part is enough to exclude; to confirm, all must hold
        return DecidingRecipes(_NO_RECIPES.union(*excluding), frozenset.intersection(*confirming))
    return DecidingRecipes(frozenset.intersection(*excluding), _NO_RECIPES.union(*confirming))


def _rank_recipes(rules: CompiledRules, stakes: list[_Stake], target: str) -> Iterator[str]:
    """Yield the recipes that could decide a condition, those that decide most for their cost first.

    A condition that an earlier recipe may decide counts only with the chance that it stays unknown.
    """
    costs = {n: r["cost"] for n, r in rules["recipes"].items() if r["target"] in (None, target)}
    for _ in range(_MAX_RECIPES):
        decided = dict.fromkeys(rules["recipes"], 0.0)
        for recipes, if_false, if_true in stakes:
            for name in recipes.excluding:
                decided[name] += if_false
            for name in recipes.confirming:
                decided[name] += if_true
        best = max(costs, key=lambda name: decided[name] / costs[name], default="")
        if not best or not decided[best]:
            return
        yield best
        del costs[best]
        stakes = [left for stake in stakes if (left := _discount(stake, best)) is not None]


def _discount(stake: _Stake, recipe: str) -> _Stake | None:
    """Return a stake, reduced to the chance that it stays unknown after a recipe; None if zero."""
    recipes, if_false, if_true = stake
    decided = (if_false if recipe in recipes.excluding else 0.0) + (
        if_true if recipe in recipes.confirming else 0.0
    )
    open_share = 1 - decided / (if_false + if_true)
    return _Stake(recipes, if_false * open_share, if_true * open_share) if open_share > 0 else None


def _group_by_recipe(
    rules: CompiledRules, wanted: Mapping[str, list[str]]
) -> dict[str, list[tuple[str, int, int, str]]]:
    """Return the required metrics by the recipe that collects each.

    Each is a tuple to sort by: evidence level, number of hypotheses (negated), position, name.
    """
    metrics = rules["metrics"]
    groups: dict[str, list[tuple[str, int, int, str]]] = {}
    for position, (name, bottlenecks) in enumerate(wanted.items()):
        row = metrics[name]
        rank = (row["level"], -len(bottlenecks), position, name)
        groups.setdefault(row["recipe"] or "", []).append(rank)
    return groups


def _expand_to_collectable(rules: CompiledRules, names: Iterable[str], facts: Facts) -> list[str]:
    """Return the collectable, unknown metrics that the named ones are or are derived from."""
    bases, collectors, known = rules["bases"], rules["collectors"], facts.values
    found: dict[str, None] = {}
    for name in names:
        for base in bases.get(name, (name,)):
            if base in collectors and base not in known:
                found[base] = None
    return list(found)


def _build_row(
    rules: CompiledRules,
    metric: str,
    recipe: str,
    bottlenecks: list[str],
    kernel: str,
    target: str,
) -> Measure:
    row = rules["recipes"][recipe]
    return {
        "metric": metric,
        "separates": list(dict.fromkeys(bottlenecks))[:_MAX_HYPOTHESES_PER_METRIC],
        "cost": row["cost"],
        "command": _name_kernel(row, kernel, target),
    }


def _name_kernel(recipe: RecipeRow, kernel: str, target: str) -> str:
    """Return the command of a recipe for a kernel; a placeholder where it has no name."""
    command = recipe["command"].replace("{kernel}", kernel or "<kernel>")
    return command.replace("{target}", target)


def list_own_commands(rules: CompiledRules, kernel: str, target: str) -> set[str]:
    """Return the commands of ``kb`` among those that collect metrics of a kernel."""
    recipes = rules["recipes"].values()
    return {_name_kernel(recipe, kernel, target) for recipe in recipes if recipe["is_own"]}


def _make_step(recipe: RecipeRow, kernel: str, target: str) -> Step:
    verb = recipe["verb"]
    if recipe["is_own"] and verb is not None:
        return NextStep(verb, {"kernel": kernel or None, "target": target}, "measures it")
    return ToolCommand(_name_kernel(recipe, kernel, target), verb)


_UNNAMED = ("<unnamed>::", "(anonymous namespace)::")
"""How tools spell a name space without a name."""


def strip_kernel_signature(kernel: str) -> str:
    """Return a kernel's name without return type, arguments and name space, for a command."""
    for unnamed in _UNNAMED:
        kernel = kernel.replace(unnamed, "")
    words = kernel.partition("<")[0].partition("(")[0].split()
    return words[-1].rpartition("::")[2] if words else ""
