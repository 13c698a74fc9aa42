"""Rows of the compiled rules that are named tuples, so that a decision unpacks them fast."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias


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
    """Postfix, see ``kernelkb.model.entries.metric``."""
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
