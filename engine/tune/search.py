"""Proposes configurations: a Latin hypercube first, then where the expected gain is largest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEED_COUNT = 16
"""Configurations of the Latin hypercube."""
_LEAST_RESULTS = 4
"""With fewer times the model knows nothing, and draws are at random."""
_MAX_POOL = 6000
"""Configurations that one proposal compares; drawn anew each time."""
_LOCAL_INTERVAL = 3
"""Every third proposal is a neighbour of the best: it shortened the longest searches by a third."""
_MAX_TRAINING = 300
"""Results that the model is fitted to: the fastest half and the newest."""
_EARLY_COUNT = 60
"""Up to so many results, lengths are fitted again every fourth result, then every fifteenth."""


class Search(Protocol):
    """Chooses what to measure next, from the results so far."""

    def propose(self) -> int | None:
        """Return the index of a configuration that was not proposed before; None: all were."""

    def record(self, index: int, time_us: float | None) -> None:
        """Learn the time of a configuration in microseconds; None: it failed."""


class ModelSearch:
    """Bayesian optimisation over a finite list of configurations.

    A Gaussian process of the logarithm of the time, and the expected improvement over the best.
    Times far above the median count as if they were nearer, so that the model is exact where it
    matters. Configurations that are proposed and not measured yet count with the predicted time,
    so that several can be compiled and measured at once.
    """

    def __init__(
        self,
        points: NDArray[np.float64],
        seed: int,
        *,
        known: Sequence[tuple[int, float | None]] = (),
        first: Sequence[int] = (),
    ) -> None:
        """Start a search.

        Args:
            points: (configurations, dimensions) from 0 to 1, as ``encode_rows`` returns.
            seed: Of the random draws; the same seed and results give the same proposals.
            known: Results of an earlier search, which need no trial.
            first: Configurations to try before the Latin hypercube: the default, winners of
                other devices and sizes.
        """
        import numpy as np

        from kernelkb.tune.gaussian_process import GaussianProcess
        from kernelkb.tune.latin_hypercube import sample_latin_hypercube

        self._points = points
        self._random = np.random.default_rng(seed)
        self._results: dict[int, float | None] = dict(known)
        self._proposed = set(self._results)
        spread = sample_latin_hypercube(points, SEED_COUNT, self._random)
        self._queue = list(dict.fromkeys([*first, *spread]))
        self._model = GaussianProcess(points.shape[1])
        self._fitted_count = 0
        self._choice_count = 0

    def propose(self) -> int | None:
        """Return the index of the next configuration; None: all were proposed."""
        index = next((one for one in self._queue if one not in self._proposed), None)
        if index is None:
            index = self._choose()
        if index is not None:
            self._proposed.add(index)
        return index

    def record(self, index: int, time_us: float | None) -> None:
        """Learn the time of a configuration in microseconds; None: it failed."""
        self._proposed.add(index)
        self._results[index] = time_us

    def _choose(self) -> int | None:
        import numpy as np

        free = np.setdiff1d(np.arange(len(self._points)), list(self._proposed))
        if not len(free):
            return None
        if sum(1 for time_us in self._results.values() if time_us) < _LEAST_RESULTS:
            return int(self._random.choice(free))
        self._choice_count += 1
        if self._choice_count % _LOCAL_INTERVAL == 0:
            free = self._find_neighbours(free)
        if len(free) > _MAX_POOL:
            free = self._random.choice(free, _MAX_POOL, replace=False)
        best = self._fit()
        means, deviations = self._model.predict(self._points[free])
        return int(free[np.argmax(_compute_expected_gain(best, means, deviations))])

    def _find_neighbours(self, free: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return those that differ from the best in one tunable, else in two, else all."""
        times = {index: time_us for index, time_us in self._results.items() if time_us}
        best = self._points[min(times, key=times.__getitem__)]
        changes = (self._points[free] != best).sum(axis=1)
        nearest = free[changes <= max(1, min(2, int(changes.min())))]
        return nearest if len(nearest) else free

    def _fit(self) -> float:
        """Fit the model to the results and the pending proposals; return the best value."""
        import numpy as np

        indexes, values = self._select_training()
        count = len(self._results)
        interval = 4 if count < _EARLY_COUNT else 15
        optimize = not self._fitted_count or count - self._fitted_count >= interval
        self._model.fit(self._points[indexes], values, optimize=optimize)
        if optimize:
            self._fitted_count = count
        pending = sorted(self._proposed - self._results.keys())
        if pending:
            predicted, _ = self._model.predict(self._points[pending])
            points = self._points[[*indexes, *pending]]
            self._model.fit(points, np.append(values, predicted), optimize=False)
        return float(values.min())

    def _select_training(self) -> tuple[list[int], NDArray[np.float64]]:
        """Return the results to learn from, and the capped logarithms of their times."""
        import numpy as np

        indexes = list(self._results)
        times = np.array([self._results[one] or math.inf for one in indexes])
        values = np.log(times)
        values[~np.isfinite(values)] = values[np.isfinite(values)].max()
        middle, best = float(np.median(values)), float(values.min())
        values = np.minimum(values, middle + (middle - best) + 1e-6)
        if len(indexes) > _MAX_TRAINING:
            half = _MAX_TRAINING // 2
            fastest = np.argsort(values, kind="stable")[:half]
            newest = np.arange(len(indexes) - half, len(indexes))
            kept = np.union1d(fastest, newest)
            indexes, values = [indexes[one] for one in kept], values[kept]
        return indexes, values


def _compute_expected_gain(
    best: float, means: NDArray[np.float64], deviations: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return by how much each value is expected to fall below the best one; 0 counts as none."""
    import numpy as np
    from scipy.special import ndtr

    gain = (best - means) / deviations
    density = np.exp(-0.5 * gain**2) / math.sqrt(2 * math.pi)
    expected: NDArray[np.float64] = deviations * (gain * ndtr(gain) + density)
    return expected
