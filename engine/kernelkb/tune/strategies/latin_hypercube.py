"""Chooses the first configurations of a search, spread evenly over each tunable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def sample_latin_hypercube(
    points: NDArray[np.float64], count: int, random: np.random.Generator
) -> list[int]:
    """Return the positions of ``count`` distinct points, near those of a Latin hypercube.

    Args:
        points: (configurations, tunables), from 0 to 1; only feasible ones.
        count: Points to choose, at most as many as there are.
        random: Source of the draws.
    """
    import numpy as np
    from scipy.stats import qmc

    count = min(count, len(points))
    free = np.ones(len(points), dtype=bool)
    chosen: list[int] = []
    for target in qmc.LatinHypercube(points.shape[1], rng=random).random(count):
        distances = np.where(free, np.abs(points - target).sum(axis=1), np.inf)
        nearest = np.flatnonzero(distances <= distances.min() + 1e-9)
        chosen.append(int(random.choice(nearest)))
        free[chosen[-1]] = False
    return chosen
