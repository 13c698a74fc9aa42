"""Defines conditions on metrics, and evaluates them: true, false, or None for unknown.

A table holds each comparison of the knowledge once; each is evaluated once for a set of metrics. A
condition is the position of a comparison in the table, or a combination of conditions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypedDict

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import Reason

_OPS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_NEGATED_OP = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


class CompiledComparison(NamedTuple):
    """One comparison of a metric with a limit: ``metric op limit``."""

    metric: str
    op: str
    limit: float | str
    """A number in the metric's unit, or the name of another quantity."""
    source: str
    """Source of the limit, as shown in explanations."""


class Combination(NamedTuple):
    """``all`` or ``any`` of several conditions, or ``not`` of one."""

    kind: Literal["all", "any", "not"]
    parts: tuple[Condition, ...]


Condition: TypeAlias = "int | Combination"
"""The position of a comparison in its table, or a combination."""


class DerivedMetric(NamedTuple):
    """One formula of a derived metric; of several, the first whose quantities are known holds."""

    metric: str
    program: list[float | str]
    """Postfix, see ``kernelkb.model.entries.quantities``."""
    quantities: list[str]
    """The quantities in it."""


class DecidingRecipes(NamedTuple):
    """The recipes that could decide a condition."""

    excluding: frozenset[str]
    """Those that could make it false."""
    confirming: frozenset[str]
    """Those that could make it true."""


class OpenCondition(NamedTuple):
    """An undecided condition of a bottleneck, or of a look-alike."""

    bottleneck: str
    recipes: DecidingRecipes
    probability: float
    """Chance that it is true, 0 to 1."""
    weight: int
    """1, and 1 more for each of its comparisons that holds."""
    metrics: list[str]
    """Metrics to collect for it."""


class ComparisonTable(TypedDict):
    """Every comparison in the knowledge, each once; conditions refer to them by position."""

    rows: list[CompiledComparison]
    by_metric: dict[str, list[int]]
    """For each metric the comparisons with it on the left side."""
    by_quantity: dict[str, list[int]]
    """For each quantity the comparisons that depend on it: on either side, or through a derived
    metric."""
    needs: list[list[str]]
    """For each comparison the measured metrics that it depends on."""
    deciding: list[DecidingRecipes]
    """For each comparison the recipes that collect all of these, and so decide it."""
    notes: dict[str, str]
    """For each source of a limit that a project or a review changed, a note on the change."""


class Facts(NamedTuple):
    """Known quantities, and the outcome of every comparison."""

    values: Mapping[str, float]
    table: ComparisonTable
    truth: list[bool | None]
    """Outcome of each comparison, by position; None if one of its sides is unknown."""
    touched: set[int]
    """Positions of the comparisons that depend on a known quantity, decided or not."""


def evaluate_comparisons(table: ComparisonTable, known: Mapping[str, float]) -> Facts:
    """Return the known quantities with the outcome of every comparison.

    Args:
        table: The comparisons of the knowledge.
        known: Value of each known quantity, in its unit.
    """
    rows, by_metric, by_quantity = table["rows"], table["by_metric"], table["by_quantity"]
    truth: list[bool | None] = [None] * len(rows)
    touched: set[int] = set()
    for name, value in known.items():
        touched.update(by_quantity.get(name, ()))
        for position in by_metric.get(name, ()):
            _, op, limit, _ = rows[position]
            right = known.get(limit) if isinstance(limit, str) else limit
            if right is not None:
                truth[position] = _OPS[op](value, right)
    return Facts(known, table, truth, touched)


def satisfies(left: float, op: str, right: float) -> bool:
    """Return whether ``left op right`` holds."""
    return _OPS[op](left, right)


def judge_condition(condition: Condition, truth: list[bool | None]) -> bool | None:
    """Return whether a condition is true; None if the known comparisons do not decide it.

    Args:
        condition: The condition.
        truth: Outcome of each comparison, by position; None is unknown.
    """
    if isinstance(condition, int):
        return truth[condition]
    kind, parts = condition
    if kind == "not":
        inner = judge_condition(parts[0], truth)
        return None if inner is None else not inner
    decisive = kind == "any"  # one true part decides "any", one false part decides "all"
    outcome: bool | None = not decisive
    for part in parts:
        value = truth[part] if isinstance(part, int) else judge_condition(part, truth)
        if value is decisive:
            return decisive
        if value is None:
            outcome = None
    return outcome


def find_reasons(condition: Condition, facts: Facts, outcome: bool = True) -> Iterator[Reason]:
    """Yield the comparisons that make a condition true, or false if ``outcome`` is False.

    They come in the order of the condition. For an unknown condition, yield the comparisons that
    contribute to ``outcome`` so far.
    """
    if isinstance(condition, int):
        if facts.truth[condition] is outcome:
            metric, op, limit, source = facts.table["rows"][condition]
            yield {
                "metric": metric,
                "value": facts.values[metric],
                "op": op if outcome else _NEGATED_OP[op],
                "limit": facts.values[limit] if isinstance(limit, str) else limit,
                "source": source,
            }
    elif condition.kind == "not":
        yield from find_reasons(condition.parts[0], facts, not outcome)
    else:
        for part in condition.parts:
            if judge_condition(part, facts.truth) in (outcome, None):
                yield from find_reasons(part, facts, outcome)


def find_missing_quantities(condition: Condition, facts: Facts) -> list[str]:
    """Return the unknown quantities that can still decide a condition, each once, in order."""
    missing: dict[str, None] = {}
    truth, known, rows = facts.truth, facts.values, facts.table["rows"]

    def collect(part: Condition) -> None:
        if isinstance(part, int):
            if truth[part] is None:
                metric, _, limit, _ = rows[part]
                if metric not in known:
                    missing[metric] = None
                if isinstance(limit, str) and limit not in known:
                    missing[limit] = None
        elif judge_condition(part, truth) is None:
            for inner in part.parts:
                collect(inner)

    collect(condition)
    return list(missing)


def format_reasons(reasons: Iterable[Reason], facts: Facts) -> str:
    """Return comparisons as text: ``speedup 0.3 < 0.5, occupancy 0.2 < 0.3``.

    A note follows a limit that a project or a review changed.
    """
    notes = facts.table["notes"]
    return ", ".join(
        format_comparison(reason["metric"], reason["value"], reason["op"], reason["limit"])
        + notes.get(reason["source"], "")
        for reason in reasons
    )


def format_comparison(metric: str, value: float, op: str, limit: float) -> str:
    """Return one comparison as text: ``speedup 0.3 < 0.5``."""
    return f"{metric} {value:.4g} {op} {limit:.4g}"
