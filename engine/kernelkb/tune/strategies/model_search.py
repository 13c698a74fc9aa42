"""Proposes configurations: a Latin hypercube first, then where the expected gain is largest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import qmc
from threadpoolctl import ThreadpoolController

from kernelkb.tune.space import EnumeratedSpace
from kernelkb.tune.strategies.gaussian_process import (
    GaussianProcess,
    Posterior,
    encode_rows,
    list_promising,
    select_training,
)

SEED_COUNT = 16
"""Configurations of the Latin hypercube."""
_SEED_COUNT_WITH_PRIOR = 8
_PROMISING_COUNT = 4
"""Configurations that a prior expects to be fastest, tried before the Latin hypercube."""
_LEAST_RESULTS = 4
"""With fewer times the model knows nothing, and draws are at random."""
_MAX_POOL = 6000
"""Configurations that one proposal compares; drawn anew each time."""
_LOCAL_INTERVAL = 3
"""Every third proposal is a neighbour of the best: it shortened the longest searches by a third."""
_EARLY_COUNT = 60
"""Up to so many results, lengths are fitted again every fourth result, then every fifteenth."""


class ModelSearch:
    """Bayesian optimisation over a finite list of configurations.

    A Gaussian process of the logarithm of the time, and the expected improvement over the best.
    Times far above the median count as if they were nearer, so that the model is exact where it
    matters. Configurations that are proposed and not measured yet count with the predicted time,
    so that several can be compiled and measured at once.
    """

    def __init__(
        self,
        space: EnumeratedSpace,
        seed: int,
        *,
        known: Sequence[tuple[int, float | None]] = (),
        first: Sequence[int] = (),
        prior: NDArray[np.float64] | None = None,
    ) -> None:
        """Start as ``StartSearch`` says; how far the prior is followed is learned from results."""
        points = encode_rows(space.rows)
        self._points = points
        self._inputs = points if prior is None else np.hstack([points, prior])
        self._random = np.random.default_rng(seed)
        self._results: dict[int, float | None] = dict(known)
        self._proposed = set(self._results)
        count = SEED_COUNT if prior is None else _SEED_COUNT_WITH_PRIOR
        spread = sample_latin_hypercube(points, count, self._random)
        promising = [] if prior is None else list_promising(prior, _PROMISING_COUNT)
        self._begin = tuple(dict.fromkeys([*first, *promising, *spread]))
        self._model = GaussianProcess(points.shape[1], self._inputs.shape[1] - points.shape[1])
        self._fitted_count = 0
        self._choice_count = 0
        self._pool: _Pool | None = None
        self._threads = ThreadpoolController()

    def propose(self) -> int | None:
        """Return the index of the next configuration; None: all were proposed."""
        index = next((one for one in self._begin if one not in self._proposed), None)
        if index is None:
            index = self._choose()
        if index is not None:
            self._proposed.add(index)
        return index

    def record(self, index: int, time_us: float | None) -> None:
        """Learn the time of a configuration in microseconds; None: it failed."""
        self._proposed.add(index)
        self._results[index] = time_us
        self._pool = None

    def _choose(self) -> int | None:
        free = np.setdiff1d(np.arange(len(self._points)), list(self._proposed))
        if not len(free):
            return None
        if sum(1 for time_us in self._results.values() if time_us) < _LEAST_RESULTS:
            return int(self._random.choice(free))
        self._choice_count += 1
        is_local = self._choice_count % _LOCAL_INTERVAL == 0
        # With several threads, a matrix of a few hundred rows takes up to 50 times as long where
        # the cores are busy, and they are: they compile.
        with self._threads.limit(limits=1):
            pool = self._pool
            if pool is None or not pool.is_free.any() or (pool.is_local and not is_local):
                pool = self._pool = self._fit_pool(free, is_local=is_local)
            allowed = pool.is_free
            if is_local:
                allowed = self._find_neighbours(pool.indexes, allowed)
            gains = _compute_expected_gain(
                pool.best, pool.posterior.means, pool.posterior.deviations
            )
            chosen = int(np.argmax(np.where(allowed, gains, -1.0)))
            pool.is_free[chosen] = False
            pool.posterior.believe(chosen)
        return int(pool.indexes[chosen])

    def _find_neighbours(
        self, indexes: NDArray[np.intp], allowed: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return which differ from the best in one tunable, else in two, else all allowed ones."""
        changes = self._count_changes(indexes)
        least = int(np.min(changes, where=allowed, initial=len(self._points[0])))
        nearest = allowed & (changes <= max(1, min(2, least)))
        return nearest if nearest.any() else allowed

    def _count_changes(self, indexes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return in how many tunables each differs from the fastest one."""
        times = {index: time_us for index, time_us in self._results.items() if time_us}
        best = self._points[min(times, key=times.__getitem__)]
        changes: NDArray[np.intp] = (self._points[indexes] != best).sum(axis=1)
        return changes

    def _fit_pool(self, free: NDArray[np.intp], *, is_local: bool) -> _Pool:
        """Fit the model to the results; believe what is proposed and not measured yet."""
        indexes, values = select_training(self._results)
        count = len(self._results)
        interval = 4 if count < _EARLY_COUNT else 15
        optimize = not self._fitted_count or count - self._fitted_count >= interval
        self._model.fit(self._inputs[indexes], values, optimize=optimize)
        if optimize:
            self._fitted_count = count
        pending = sorted(self._proposed - self._results.keys())
        if pending:
            believed = self._model.predict(self._inputs[pending]).means
            points = self._inputs[[*indexes, *pending]]
            self._model.fit(points, np.append(values, believed), optimize=False)
        is_free = np.ones(len(free), dtype=np.bool_)
        if is_local:
            free = free[self._find_neighbours(free, is_free)]
        if len(free) > _MAX_POOL:
            free = self._random.choice(free, _MAX_POOL, replace=False)
        posterior = self._model.predict(self._inputs[free])
        return _Pool(free, is_free[: len(free)], posterior, float(values.min()), is_local)


class _Pool(NamedTuple):
    """What the next proposals are chosen from, until a result comes."""

    indexes: NDArray[np.intp]
    is_free: NDArray[np.bool_]
    """Whether each is not proposed yet."""
    posterior: Posterior
    best: float
    """The best value of the results."""
    is_local: bool
    """Whether it holds neighbours of the best configuration only."""


def _compute_expected_gain(
    best: float, means: NDArray[np.float64], deviations: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return by how much each value is expected to fall below the best one; 0 counts as none."""
    gain = (best - means) / deviations
    density = np.exp(-0.5 * gain**2) / math.sqrt(2 * math.pi)
    expected: NDArray[np.float64] = deviations * (gain * ndtr(gain) + density)
    return expected


def sample_latin_hypercube(
    points: NDArray[np.float64], count: int, random: np.random.Generator
) -> list[int]:
    """Return the positions of ``count`` distinct points, near those of a Latin hypercube.

    Args:
        points: (configurations, tunables), from 0 to 1; only feasible ones.
        count: Points to choose, at most as many as there are.
        random: Source of the draws.
    """
    count = min(count, len(points))
    free = np.ones(len(points), dtype=bool)
    chosen: list[int] = []
    for target in qmc.LatinHypercube(points.shape[1], rng=random).random(count):
        distances = np.where(free, np.abs(points - target).sum(axis=1), np.inf)
        nearest = np.flatnonzero(distances <= distances.min() + 1e-9)
        chosen.append(int(random.choice(nearest)))
        free[chosen[-1]] = False
    return chosen
