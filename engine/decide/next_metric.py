"""What to measure next: the most hypotheses settled for the least collecting.

A recipe is worth, to each open hypothesis, the chance that its metrics settle it. Most hypotheses
are false, so what can exclude counts for most; what could only confirm counts little.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from engine.decide.answer import Measure
from engine.decide.conditions import Facts, missing
from engine.decide.diagnose import Finding, support
from engine.decide.program import Condition, Program

_AT_MOST = 10
"""Rows worth reading; the first recipe usually settles the rest."""

_OF_ONE_RECIPE = 6
"""Rows of one recipe, so that a cheap one does not hide behind a large one."""

_NAMED = 8
"""Hypotheses named for one metric."""

_RECIPES = 4
"""Recipes in one answer."""

_LIKELY = 0.1
"""Prior chance that a hypothesis is true: about one in ten of those that are still open."""

_TELLING = 2
"""How many times more than a coincidence a part that holds speaks for the whole (judgement)."""

_EVERY = -1
"""All bits set: settled already, whatever is collected."""


class SupportsMask(Protocol):
    """Knows for each open leaf the recipes, as bits, that settle it."""

    def __getitem__(self, leaf: int, /) -> int:
        """Return the bits."""


class _Wish(NamedTuple):
    """What would settle one open condition."""

    hypothesis: str
    sides: tuple[int, int]
    """Recipes, as bits, that could make it false, and that could make it true."""
    asks: list[str]
    support: int = 0
    """Parts of the condition that hold already."""


class _Stake(NamedTuple):
    """Open conditions of one kind: who could settle them, and how likely they are true."""

    false: int
    true: int
    likely: float


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
    wishes = [wish for finding in findings for wish in _wishes(program, finding, facts)]
    wanted: dict[str, dict[str, None]] = {name: {} for name in extra}
    for wish in wishes:
        for name in wish.asks:
            if name in wanted:
                wanted[name][wish.hypothesis] = None
            else:
                wanted[name] = {wish.hypothesis: None}
    rows = [_row(program, name, [], kernel, target) for name in extra]
    by_recipe = _by_recipe(program, wanted, set(extra))
    for recipe in _by_worth(program, wishes, target):
        bits = program["recipes"][recipe]["collects"]
        inside = [n for at, names in by_recipe.items() if bits >> at & 1 for n in names]
        by_recipe = {at: names for at, names in by_recipe.items() if not bits >> at & 1}
        inside.sort(key=lambda name: (program["metrics"][name]["level"], -len(wanted[name])))
        rows += [
            _row(program, name, list(wanted[name])[:_NAMED], kernel, target, recipe)
            for name in inside[:_OF_ONE_RECIPE]
        ]
        if len(rows) >= _AT_MOST:
            break
    return rows[:_AT_MOST]


def _wishes(program: Program, finding: Finding, facts: Facts) -> Iterator[_Wish]:
    hint = finding.row["hint"]
    name = finding.row["id"]
    if finding.diagnosis["verdict"] == "unknown" and facts.touched.isdisjoint(hint["leaves"]):
        yield _Wish(name, (hint["false"], hint["true"]), hint["asks"])
        return
    for condition in finding.open:
        asks = _collectable(program, missing(condition, facts), facts)
        masks = _Masks(program, facts)
        known = finding.diagnosis["verdict"] == "matches"
        held = 0 if known else support(finding.row, facts)
        yield _Wish(name, sides(condition, facts.truth, masks), asks, held)


class _Masks:
    """For an open leaf the recipes that collect what it still lacks."""

    def __init__(self, program: Program, facts: Facts) -> None:
        self._program, self._facts = program, facts

    def __getitem__(self, leaf: int) -> int:
        table, known = self._program["comparisons"], self._facts.known
        if leaf not in self._facts.touched:
            return table["collected_by"][leaf]
        mask = _EVERY
        for name in table["needs"][leaf]:
            if name not in known:
                mask &= self._program["collectors"].get(name, 0)
        return mask if mask != _EVERY else 0


def sides(
    condition: Condition, truth: Sequence[bool | None], masks: SupportsMask
) -> tuple[int, int]:
    """Return the recipes, as bits, that could make a condition false, and true."""
    if condition.__class__ is int:
        value = truth[condition]
        if value is None:
            return masks[condition], masks[condition]
        return (0, _EVERY) if value else (_EVERY, 0)
    parts = [sides(part, truth, masks) for part in condition[1:]]
    if condition[0] == "not":
        return parts[0][1], parts[0][0]
    either, both = (0, 1) if condition[0] == "all" else (1, 0)
    some, every = 0, _EVERY
    for part in parts:
        some |= part[either]
        every &= part[both]
    return (some, every) if condition[0] == "all" else (every, some)


def _by_worth(program: Program, wishes: list[_Wish], target: str) -> list[str]:
    """Return the recipes that could settle something, the most settled for its cost first.

    What the recipes before could exclude already counts only as far as it would still be open.
    """
    open_: dict[_Stake, float] = {}
    for wish in wishes:
        stake = _Stake(*wish.sides, 1 - (1 - _LIKELY) ** (1 + _TELLING * wish.support))
        open_[stake] = open_.get(stake, 0.0) + 1 + wish.support
    recipes = program["recipes"].items()
    bits = {n: 1 << at for at, (n, r) in enumerate(recipes) if r["target"] in (None, target)}
    order: list[str] = []
    while bits and len(order) < _RECIPES:
        worth = {
            name: sum(n * _chance(stake, bit) for stake, n in open_.items())
            / program["recipes"][name]["cost"]
            for name, bit in bits.items()
        }
        best = max(worth, key=lambda name: worth[name])
        if not worth[best]:
            break
        order.append(best)
        taken = bits.pop(best)
        open_ = {stake: n * (1 - _chance(stake, taken)) for stake, n in open_.items()}
    return order


def _chance(stake: _Stake, bit: int) -> float:
    """Return the chance that a recipe settles a condition."""
    return (1 - stake.likely) * bool(stake.false & bit) + stake.likely * bool(stake.true & bit)


def _by_recipe(
    program: Program, wanted: Iterable[str], settled: Container[str]
) -> dict[int, list[str]]:
    """Return the wanted metrics under the position of the recipe that collects each."""
    position = {name: at for at, name in enumerate(program["recipes"])}
    found: dict[int, list[str]] = {}
    for name in wanted:
        if name not in settled:
            recipe = program["metrics"][name]["recipe"] or ""
            found.setdefault(position[recipe], []).append(name)
    return found


def _collectable(program: Program, names: Iterable[str], facts: Facts) -> list[str]:
    """Replace derived metrics by what they follow from; drop what is known or not collectable."""
    bases, collectors = program["bases"], program["collectors"]
    found: dict[str, None] = {}
    for name in names:
        for base in bases.get(name, (name,)):
            if base not in facts.known and base in collectors:
                found[base] = None
    return list(found)


def _row(
    program: Program,
    name: str,
    separates: list[str],
    kernel: str,
    target: str,
    recipe: str | None = None,
) -> Measure:
    row = program["recipes"][recipe or program["metrics"][name]["recipe"] or ""]
    command = row["command"].replace("{kernel}", _plain(kernel) or "<kernel>")
    return {
        "metric": name,
        "separates": separates,
        "cost": row["cost"],
        "command": command.replace("{target}", target),
    }


def _plain(kernel: str) -> str:
    """Return a kernel's name without return type, arguments and name space, fit for a command."""
    words = kernel.partition("<")[0].partition("(")[0].split()
    return words[-1].rpartition("::")[2] if words else ""
