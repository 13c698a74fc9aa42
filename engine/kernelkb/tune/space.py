"""Lists the feasible configurations of a tuning space, and which constraint excludes how many."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from simpleeval import InvalidExpression, SimpleEval

from kernelkb.device_math.occupancy import Limits
from kernelkb.errors import BadValueError
from kernelkb.model.kernels.tuning import (
    EXPRESSION_FUNCTIONS,
    SpaceRuleCount,
    SpaceSummary,
    TuningSpace,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_TABLE = 1_000_000
"""Most combinations of the tunables that one expression names."""


class SpaceRule(NamedTuple):
    """One condition of a space, from the kernel or from the limits of the device."""

    expression: str
    because: str
    excluded_count: int
    """Combinations that it excludes, counted by itself."""
    count_without: int
    """Feasible configurations if this rule alone were not there."""


class EnumeratedSpace(NamedTuple):
    """All feasible configurations of a space."""

    names: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    """The values of each tunable."""
    rows: NDArray[np.intp]
    """(feasible, tunables): the position of each value among its tunable's values."""
    combination_count: int
    """Combinations of all values, feasible or not."""
    rules: tuple[SpaceRule, ...]

    def get_configuration(self, index: int) -> dict[str, int]:
        """Return the values of the tunables of one feasible configuration."""
        return {
            name: values[position]
            for name, values, position in zip(
                self.names, self.values, self.rows[index].tolist(), strict=True
            )
        }

    @property
    def values_by_name(self) -> dict[str, tuple[int, ...]]:
        """The values of each tunable."""
        return dict(zip(self.names, self.values, strict=True))

    def describe(self) -> SpaceSummary:
        """Return the counts of the space."""
        return SpaceSummary(
            combination_count=self.combination_count,
            feasible_count=len(self.rows),
            rules=tuple(
                SpaceRuleCount(
                    rule=one.expression, because=one.because, excluded_count=one.excluded_count
                )
                for one in self.rules
            ),
        )

    def find_index(self, configuration: Mapping[str, int]) -> int | None:
        """Return the position of a configuration in ``rows``; None if it is not feasible."""
        try:
            wanted = [
                values.index(configuration[name])
                for name, values in zip(self.names, self.values, strict=True)
            ]
        except (KeyError, ValueError):
            return None
        hits = (self.rows == wanted).all(axis=1).nonzero()[0]
        return int(hits[0]) if len(hits) else None


def enumerate_space(
    space: TuningSpace, limits: Limits | None = None, axes: Mapping[str, int] | None = None
) -> EnumeratedSpace:
    """Return the feasible configurations of a space.

    An expression is computed once for each combination of the tunables that it names, not once
    for each configuration.

    Args:
        space: Tunables, constraints and formulas.
        limits: Of the GPU; None: no limit but the constraints.
        axes: Sizes of the workload, which expressions may name.

    Raises:
        BadValueError: An expression cannot be computed, or no configuration is feasible.
    """
    import numpy as np

    shape = tuple(len(values) for values in space.parameters.values())
    conditions = [(c.require, c.because) for c in space.constraints]
    conditions += _list_limit_conditions(space, limits) if limits else []
    masks = [_compute_mask(space, expression, axes or {}) for expression, _ in conditions]
    found = EnumeratedSpace(
        tuple(space.parameters),
        tuple(space.parameters.values()),
        np.argwhere(_combine(masks, shape)),
        math.prod(shape),
        tuple(_count_by_rule(conditions, masks, shape)),
    )
    if not len(found.rows):
        raise BadValueError(_describe_empty_space(found))
    return found


def _count_by_rule(
    conditions: Sequence[tuple[str, str]],
    masks: Sequence[NDArray[np.bool_]],
    shape: tuple[int, ...],
) -> Iterator[SpaceRule]:
    import numpy as np

    for index, ((expression, because), mask) in enumerate(zip(conditions, masks, strict=True)):
        others = _combine([*masks[:index], *masks[index + 1 :]], shape)
        excluded = int((~np.broadcast_to(mask, shape)).sum())
        yield SpaceRule(expression, because, excluded, int(others.sum()))


def _list_limit_conditions(space: TuningSpace, limits: Limits) -> list[tuple[str, str]]:
    """Return the limits of the device as conditions, for the formulas that the space has."""
    conditions = []
    if space.threads:
        conditions.append(
            (f"({space.threads}) <= {limits.threads_block}", "the largest block of the GPU")
        )
    if space.shared_bytes:
        most = limits.shared_opt_in
        conditions.append(
            (f"({space.shared_bytes}) <= {most}", f"a block has at most {most:,} B shared memory")
        )
    if space.registers:
        most = limits.registers_thread
        conditions.append(
            (f"({space.registers}) <= {most}", f"a thread has at most {most} registers")
        )
    if space.registers and space.threads:
        most = limits.registers_block
        conditions.append(
            (
                f"({space.registers}) * ({space.threads}) <= {most}",
                f"a block has at most {most:,} registers",
            )
        )
    return conditions


def _compute_mask(
    space: TuningSpace, expression: str, axes: Mapping[str, int]
) -> NDArray[np.bool_]:
    """Return where an expression is true, with extent 1 along the tunables it does not name."""
    import numpy as np

    used = _list_names(expression)
    unknown = used - space.parameters.keys() - axes.keys() - EXPRESSION_FUNCTIONS.keys()
    if unknown:
        raise BadValueError(
            f"{expression!r} names {', '.join(sorted(unknown))}: neither a tunable nor an axis"
        )
    names = [name for name in space.parameters if name in used]
    shape = [len(v) if name in used else 1 for name, v in space.parameters.items()]
    if math.prod(shape) > _MAX_TABLE:
        raise BadValueError(f"{expression!r} names too many tunables; split it into several")
    table = _evaluate_combinations(
        expression, names, [space.parameters[name] for name in names], axes
    )
    return np.array(table, dtype=bool).reshape(shape)


def _list_names(expression: str) -> set[str]:
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, RecursionError) as error:
        raise BadValueError(f"{expression!r} is not an expression: {error}") from error
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _evaluate_combinations(
    expression: str,
    names: Sequence[str],
    values: Sequence[Sequence[int]],
    axes: Mapping[str, int],
) -> list[Any]:
    evaluator = SimpleEval(functions=EXPRESSION_FUNCTIONS)
    parsed = evaluator.parse(expression)
    results = []
    for combination in itertools.product(*values):
        evaluator.names = {**axes, **dict(zip(names, combination, strict=True))}
        try:
            results.append(evaluator.eval(expression, previously_parsed=parsed))
        except (InvalidExpression, TypeError, ArithmeticError) as error:
            raise BadValueError(f"{expression!r} cannot be computed: {error}") from error
    return results


def evaluate_expression(
    expression: str, configuration: Mapping[str, int], axes: Mapping[str, int] | None = None
) -> float:
    """Return the value of an expression for one configuration.

    Raises:
        BadValueError: It cannot be computed.
    """
    values = [[value] for value in configuration.values()]
    return float(_evaluate_combinations(expression, list(configuration), values, axes or {})[0])


def _combine(masks: Sequence[NDArray[np.bool_]], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return where all masks are true."""
    import numpy as np

    allowed = np.ones(shape, dtype=bool)
    for mask in masks:
        allowed &= mask
    return allowed


def _describe_empty_space(space: EnumeratedSpace) -> str:
    """Return that nothing is feasible, and the rule whose removal gives most configurations."""
    total = f"none of {space.combination_count:,} configurations is feasible"
    best = max(space.rules, key=lambda rule: rule.count_without)
    if best.count_without:
        return (
            f"{total}; relax {best.expression!r} ({best.because}): "
            f"without it {best.count_without:,} are"
        )
    strictest = max(space.rules, key=lambda rule: rule.excluded_count)
    return (
        f"{total}, whichever constraint is left out; {strictest.expression!r} "
        f"({strictest.because}) excludes most, {strictest.excluded_count:,}: add smaller values"
    )
