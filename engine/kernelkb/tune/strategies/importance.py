"""Estimates how much each tunable decides about the time, over the whole space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelkb.tune.space import EnumeratedSpace
from kernelkb.tune.strategies.encode import encode_rows
from kernelkb.tune.strategies.gaussian_process import GaussianProcess

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LEAST_TRIALS = 30
_MAX_CONFIGURATIONS = 4000
_MAX_TRAINING = 120


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
    import numpy as np

    if len(times) < _LEAST_TRIALS:
        return {}
    random = np.random.default_rng(0)
    chosen = random.permutation(len(times))[:_MAX_TRAINING]
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
    import numpy as np

    groups = [predicted[column == place] for place in np.unique(column)]
    middle = predicted.mean()
    return float(sum(len(one) * (one.mean() - middle) ** 2 for one in groups)) / len(predicted)
