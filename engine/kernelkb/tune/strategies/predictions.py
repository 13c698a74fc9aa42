"""Predicts times over a whole space from trials: of a search elsewhere, and by tunable.

Elsewhere is another workload, device, driver or version of the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelkb.tune.space import EnumeratedSpace
from kernelkb.tune.strategies.gaussian_process import (
    GaussianProcess,
    encode_rows,
    select_training,
)

_LEAST_RANKED = 30
_MAX_CONFIGURATIONS = 4000
_MAX_RANKED = 120
LEAST_TRIALS = 20
"""Timed trials, feasible here too, without which another space tells too little."""
MAX_SPACES = 3
"""Other spaces that count: those with most trials."""

OtherTrials = Sequence[tuple[Mapping[str, int], float | None]]
"""Configurations and times of another search in any unit; None: it failed."""


def build_prior(
    space: EnumeratedSpace, others: Sequence[OtherTrials]
) -> NDArray[np.float64] | None:
    """Return what each other space predicts for each configuration; None: none tells enough.

    A Gaussian process is fitted to the logarithms of the times of each other space. Predictions
    have mean 0 and variance 1 over the configurations: only their order and spacing count, since
    another device or workload has times of its own.

    Args:
        space: All feasible configurations here.
        others: Trials of each other space.

    Returns:
        (configurations, other spaces), lower is faster; at most ``MAX_SPACES`` columns.
    """
    found = [_match(space, one) for one in others]
    told = [one for one in found if sum(1 for time in one.values() if time) >= LEAST_TRIALS]
    points = encode_rows(space.rows)
    columns = []
    for results in sorted(told, key=len, reverse=True)[:MAX_SPACES]:
        indexes, values = select_training(results)
        model = GaussianProcess(points.shape[1])
        model.fit(points[indexes], values, optimize=True)
        means = model.predict(points).means
        if means.std() > 0:
            columns.append((means - means.mean()) / means.std())
    return np.stack(columns, axis=1) if columns else None


def list_promising(prior: NDArray[np.float64], count: int) -> list[int]:
    """Return the configurations that a prior expects to be fastest, best first.

    Args:
        prior: (configurations, other spaces), as ``build_prior`` returns.
        count: Configurations to return.
    """
    order: list[int] = np.argsort(prior.mean(axis=1), kind="stable")[:count].tolist()
    return order


def _match(space: EnumeratedSpace, trials: OtherTrials) -> dict[int, float | None]:
    """Return the results whose configuration is feasible here, by its index."""
    return {
        index: time
        for configuration, time in trials
        if (index := space.find_index(configuration)) is not None
    }


def rank_tunables(
    space: EnumeratedSpace, indexes: Sequence[int], times: Sequence[float]
) -> dict[str, float]:
    """Return the share of each tunable alone in the spread of the predicted times, largest first.

    The trials of a search crowd around the best, so that shares computed from them would tell what
    the search did. Hence a Gaussian process is fitted to them, and predicts up to 4,000 feasible
    configurations, evenly drawn. What tunables do together belongs to none; shares add up to 1 or
    less, except where constraints tie tunables to each other. Empty with fewer than 30 trials.

    Args:
        space: All feasible configurations.
        indexes: Of the trials that were timed.
        times: As many, above zero.
    """
    if len(times) < _LEAST_RANKED:
        return {}
    random = np.random.default_rng(0)
    chosen = random.permutation(len(times))[:_MAX_RANKED]
    points = encode_rows(space.rows)
    model = GaussianProcess(points.shape[1])
    values = np.log(np.array(times))[chosen]
    model.fit(points[np.array(indexes)[chosen]], values, optimize=True)
    count = min(_MAX_CONFIGURATIONS, len(space.rows))
    sample = random.choice(len(space.rows), count, replace=False)
    predicted = model.predict(points[sample]).means
    spread = float(predicted.var())
    if not spread > 0:
        return {}
    shares = {
        name: _compute_main_effect(space.rows[sample, column], predicted) / spread
        for column, name in enumerate(space.names)
    }
    return dict(sorted(shares.items(), key=lambda one: (-one[1], one[0])))


def _compute_main_effect(column: NDArray[np.intp], predicted: NDArray[np.float64]) -> float:
    """Return the variance of the mean prediction by value of a tunable."""
    groups = [predicted[column == position] for position in np.unique(column)]
    middle = predicted.mean()
    return float(sum(len(one) * (one.mean() - middle) ** 2 for one in groups)) / len(predicted)
