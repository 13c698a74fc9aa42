"""Turns trials of the same tunables elsewhere into what to expect here.

Elsewhere is another workload, device, driver or version of the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernelkb.tune.space import EnumeratedSpace
from kernelkb.tune.strategies.encode import encode_rows
from kernelkb.tune.strategies.gaussian_process import GaussianProcess
from kernelkb.tune.strategies.training import select_training

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    import numpy as np

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
    import numpy as np

    order: list[int] = np.argsort(prior.mean(axis=1), kind="stable")[:count].tolist()
    return order


def _match(space: EnumeratedSpace, trials: OtherTrials) -> dict[int, float | None]:
    """Return the results whose configuration is feasible here, by its index."""
    return {
        index: time
        for configuration, time in trials
        if (index := space.find_index(configuration)) is not None
    }
