"""A Gaussian process over configurations, and what it predicts from the trials of a search.

``encode_rows`` and ``select_training`` prepare its points and values. numpy and scipy are imported
at the top: import this module only where a search runs.

Trials elsewhere are those of another workload, device, driver or version of the source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from kernelkb.tune.space import EnumeratedSpace

_LENGTH = 0.7
"""Prior median of a length scale, as a share of a tunable's range."""
_NOISE = 1e-3
"""Prior median of the noise variance, as a share of the signal's."""
_NOISE_SPREAD = 1.5
_TREND = 1.0
"""Prior median of the variance that a trend explains, as a share of the signal's."""
_TREND_SPREAD = 2.0
_JITTER = 1e-6
_BOUNDS = (-3.0, 3.0)
"""Of the logarithm of a length scale."""
_TREND_BOUNDS = (-8.0, 4.0)
_NOISE_BOUNDS = (-12.0, 0.0)
_MAX_ITERATIONS = 15
MAX_TRAINING = 300
"""Results that a search fits it to: the fastest half and the newest."""

_LEAST_RANKED = 30
_MAX_CONFIGURATIONS = 4000
_MAX_RANKED = 120
LEAST_TRIALS = 20
"""Timed trials, feasible here too, without which another space tells too little."""
MAX_SPACES = 3
"""Other spaces that count: those with most trials."""

OtherTrials = Sequence[tuple[Mapping[str, int], float | None]]
"""Configurations and times of another search in any unit; None: it failed."""


def encode_rows(rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return (configurations, tunables that vary) coordinates from 0 to 1.

    A value is placed by its rank among the values that occur. On recorded spaces that needed fewer
    measurements than placing it by its logarithm.

    Args:
        rows: (configurations, tunables) positions of the values.
    """
    columns = []
    for column in rows.T:
        used, ranks = np.unique(column, return_inverse=True)
        if len(used) > 1:
            columns.append(ranks / (len(used) - 1))
    return np.stack(columns, axis=1) if columns else np.zeros((len(rows), 1))


def select_training(
    results: Mapping[int, float | None],
) -> tuple[list[int], NDArray[np.float64]]:
    """Return the configurations to learn from, and the capped logarithms of their times.

    A failed configuration counts as the slowest one. Times far above the median count as if they
    were nearer, so that the model is exact where it matters.

    Args:
        results: Times by configuration, in the order of the trials; None: it failed. At least one
            has a time.
    """
    indexes = list(results)
    values = np.log(np.array([results[one] or math.inf for one in indexes]))
    values[~np.isfinite(values)] = values[np.isfinite(values)].max()
    middle, best = float(np.median(values)), float(values.min())
    values = np.minimum(values, middle + (middle - best) + 1e-6)
    if len(indexes) > MAX_TRAINING:
        half = MAX_TRAINING // 2
        fastest = np.argsort(values, kind="stable")[:half]
        newest = np.arange(len(indexes) - half, len(indexes))
        kept = np.union1d(fastest, newest)
        indexes, values = [indexes[one] for one in kept], values[kept]
    return indexes, values


class GaussianProcess:
    """A regression from points of the unit cube to a value, with its uncertainty.

    The value may also follow trends: known functions of the point, each times a factor that is
    learned. The likelihood decides how much of the value a trend explains, which may be nothing.
    """

    def __init__(self, dimensions: int, trend_count: int = 0) -> None:
        """Start with the prior.

        Args:
            dimensions: Of the unit cube.
            trend_count: Trends; their values follow the coordinates of each point.
        """
        self._dimensions = dimensions
        logs = [np.log(_LENGTH)] * dimensions + [np.log(_TREND)] * trend_count + [np.log(_NOISE)]
        self._prior = np.array(logs)
        self._spread = np.array(
            [1.0] * dimensions + [_TREND_SPREAD] * trend_count + [_NOISE_SPREAD]
        )
        self._bounds = [
            *[_BOUNDS] * dimensions,
            *[_TREND_BOUNDS] * trend_count,
            _NOISE_BOUNDS,
        ]
        self._logs = self._prior.copy()
        """Logarithms of length scales, trend variances and noise; kept from fit to fit."""

    def fit(
        self, points: NDArray[np.float64], values: NDArray[np.float64], *, optimize: bool
    ) -> None:
        """Fit to observations; ``optimize`` also fits the scales, which takes longer.

        Args:
            points: (observations, dimensions + trends).
            values: (observations,).
            optimize: Maximise the likelihood, with a prior for each scale.
        """
        self._points = points
        self._mean, self._scale = float(values.mean()), float(values.std()) + 1e-9
        standard = (values - self._mean) / self._scale
        if optimize:
            found = minimize(
                self._compute_loss,
                self._logs,
                args=(points, standard),
                jac=True,
                method="L-BFGS-B",
                bounds=self._bounds,
                options={"maxiter": _MAX_ITERATIONS},
            )
            self._logs = found.x
        covariance = self._compute_covariance(self._logs, points, points).total
        self._factor = np.linalg.cholesky(covariance + self._get_noise(self._logs, len(points)))
        self._weights = cho_solve((self._factor, True), standard)
        self._variance = max(float(standard @ self._weights) / len(standard), _JITTER)

    def predict(self, points: NDArray[np.float64]) -> Posterior:
        """Return what is known of the value at each point.

        Args:
            points: (points, dimensions + trends).
        """
        near = self._compute_covariance(self._logs, self._points, points).total
        explained = solve_triangular(self._factor, near, lower=True, check_finite=False)
        trends = np.exp(self._logs[self._dimensions : -1])
        own = 1.0 + points[:, self._dimensions :] ** 2 @ trends
        left = own - (explained**2).sum(axis=0)
        return Posterior(self, points, self._weights @ near, explained, left)

    def _compute_covariance(
        self, logs: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64]
    ) -> _Covariance:
        count = self._dimensions
        lengths = np.exp(logs[:count])
        scaled = np.sqrt(5.0) * cdist(first[:, :count] / lengths, second[:, :count] / lengths)
        decay = np.exp(-scaled)
        total = (1.0 + scaled + scaled**2 / 3.0) * decay
        if len(logs) > count + 1:
            total += first[:, count:] * np.exp(logs[count:-1]) @ second[:, count:].T
        return _Covariance(total, 5.0 / 3.0 * (1.0 + scaled) * decay)

    def _get_noise(self, logs: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        noise: NDArray[np.float64] = (float(np.exp(logs[-1])) + _JITTER) * np.eye(count)
        return noise

    def _compute_loss(
        self, logs: NDArray[np.float64], points: NDArray[np.float64], values: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Return minus the logarithm of likelihood times prior, but for a constant; its slope."""
        count = len(values)
        covariance = self._compute_covariance(logs, points, points)
        try:
            factor = np.linalg.cholesky(covariance.total + self._get_noise(logs, count))
        except np.linalg.LinAlgError:
            return 1e6, np.zeros_like(logs)
        weights = cho_solve((factor, True), values)
        variance = max(float(values @ weights) / count, _JITTER)
        off = (logs - self._prior) / self._spread
        loss = 0.5 * count * np.log(variance) + np.log(np.diag(factor)).sum()
        inverse = cho_solve((factor, True), np.eye(count))
        residual = inverse - np.outer(weights, weights) / variance
        slope = off / self._spread + self._compute_slope(logs, points, residual, covariance.slope)
        return float(loss + 0.5 * (off**2).sum()), slope

    def _compute_slope(
        self,
        logs: NDArray[np.float64],
        points: NDArray[np.float64],
        residual: NDArray[np.float64],
        matern_slope: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the slope of minus the log-likelihood along each of ``logs``.

        It is half the sum over all pairs of ``residual`` times the slope of the covariance; for a
        length scale that sum is over squared differences, which two products give.
        """
        count = self._dimensions
        coordinates, trends = points[:, :count], points[:, count:]
        weighted = residual * matern_slope
        squares = weighted.sum(axis=1) @ coordinates**2
        products = (coordinates * (weighted @ coordinates)).sum(axis=0)
        explained = (trends * (residual @ trends)).sum(axis=0)
        return np.concatenate(
            [
                (squares - products) / np.exp(2.0 * logs[:count]),
                0.5 * np.exp(logs[count:-1]) * explained,
                [0.5 * np.exp(logs[-1]) * np.trace(residual)],
            ]
        )


class Posterior:
    """Mean and uncertainty at a list of points, of which some may join the observations.

    Attributes:
        means: (points,).
    """

    def __init__(
        self,
        process: GaussianProcess,
        points: NDArray[np.float64],
        standard: NDArray[np.float64],
        explained: NDArray[np.float64],
        left: NDArray[np.float64],
    ) -> None:
        """Keep what a process predicts now; a later fit does not change it.

        Args:
            process: The fitted one.
            points: (points, dimensions + trends).
            standard: (points,) means, standardised.
            explained: (observations, points) covariances, solved by the Cholesky factor.
            left: (points,) variance that the observations leave.
        """
        self.means: NDArray[np.float64] = standard * process._scale + process._mean
        self._deviation = process._scale * math.sqrt(process._variance)
        self._compute_covariance = partial(process._compute_covariance, process._logs.copy())
        self._noise = math.exp(float(process._logs[-1])) + _JITTER
        self._points, self._explained, self._left = points, explained, left
        self._believed: list[NDArray[np.float64]] = []

    @property
    def deviations(self) -> NDArray[np.float64]:
        """(points,) standard deviations."""
        found: NDArray[np.float64] = self._deviation * np.sqrt(np.maximum(self._left, 1e-9))
        return found

    def believe(self, index: int) -> None:
        """Take a point as observed at its mean: all means stay, and its neighbours are surer.

        It costs as much as the prediction of one point, not a new fit.

        Args:
            index: Of the point.
        """
        point = self._points[index : index + 1]
        covariance = self._compute_covariance(self._points, point).total[:, 0]
        covariance = covariance - self._explained[:, index] @ self._explained
        for row in self._believed:
            covariance -= row[index] * row
        own = max(float(self._left[index]), 0.0) + self._noise
        self._believed.append(covariance / math.sqrt(own))
        self._left = self._left - self._believed[-1] ** 2


class _Covariance(NamedTuple):
    total: NDArray[np.float64]
    slope: NDArray[np.float64]
    """Of the Matern part: times a squared difference over a squared length, along its logarithm."""


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
