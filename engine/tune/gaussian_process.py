"""Fits a Gaussian process with a Matern 5/2 kernel, one length scale for each tunable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LENGTH = 0.7
"""Prior median of a length scale, as a share of a tunable's range."""
_NOISE = 1e-3
"""Prior median of the noise variance, as a share of the signal's."""
_NOISE_SPREAD = 1.5
_JITTER = 1e-6
_BOUNDS = (-3.0, 3.0)
"""Of the logarithm of a length scale."""
_NOISE_BOUNDS = (-12.0, 0.0)
_MAX_ITERATIONS = 15
_CHUNK = 4096


class GaussianProcess:
    """A regression from points of the unit cube to a value, with its uncertainty."""

    def __init__(self, dimensions: int) -> None:
        import numpy as np

        self._logs = np.append(np.full(dimensions, np.log(_LENGTH)), np.log(_NOISE))
        """Logarithms of the length scales and of the noise; kept from fit to fit."""

    def fit(
        self, points: NDArray[np.float64], values: NDArray[np.float64], *, optimize: bool
    ) -> None:
        """Fit to observations; ``optimize`` also fits length scales and noise, which takes longer.

        Args:
            points: (observations, dimensions).
            values: (observations,).
            optimize: Maximise the likelihood, with a prior for each length.
        """
        import numpy as np
        from scipy.linalg import cho_solve
        from scipy.optimize import minimize

        self._points = points
        self._mean, self._scale = float(values.mean()), float(values.std()) + 1e-9
        standard = (values - self._mean) / self._scale
        apart = np.abs(points[:, None] - points[None])
        if optimize:
            bounds = [_BOUNDS] * points.shape[1] + [_NOISE_BOUNDS]
            found = minimize(
                lambda logs: _compute_loss(logs, apart, standard),
                self._logs,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": _MAX_ITERATIONS},
            )
            self._logs = found.x
        self._factor = np.linalg.cholesky(_compute_covariance(self._logs, apart))
        self._weights = cho_solve((self._factor, True), standard)
        self._variance = max(float(standard @ self._weights) / len(standard), _JITTER)

    def predict(
        self, points: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard deviation at each point."""
        import numpy as np
        from scipy.linalg import solve_triangular

        means, deviations = np.empty(len(points)), np.empty(len(points))
        for start in range(0, len(points), _CHUNK):
            part = slice(start, start + _CHUNK)
            apart = np.abs(points[part][:, None] - self._points[None])
            near = _compute_matern(apart, np.exp(self._logs[:-1]))
            means[part] = near @ self._weights
            explained = solve_triangular(self._factor, near.T, lower=True)
            left = np.maximum(1.0 - (explained**2).sum(axis=0), 1e-9)
            deviations[part] = np.sqrt(self._variance * left)
        return means * self._scale + self._mean, deviations * self._scale


def _compute_matern(
    apart: NDArray[np.float64], lengths: NDArray[np.float64]
) -> NDArray[np.float64]:
    import numpy as np

    scaled = np.sqrt(5.0) * np.sqrt(((apart / lengths) ** 2).sum(axis=-1))
    result: NDArray[np.float64] = (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)
    return result


def _compute_covariance(
    logs: NDArray[np.float64], apart: NDArray[np.float64]
) -> NDArray[np.float64]:
    import numpy as np

    noise = float(np.exp(logs[-1])) + _JITTER
    covariance: NDArray[np.float64] = _compute_matern(apart, np.exp(logs[:-1]))
    return covariance + noise * np.eye(len(apart))


def _compute_loss(
    logs: NDArray[np.float64], apart: NDArray[np.float64], values: NDArray[np.float64]
) -> float:
    """Return minus the logarithm of likelihood times prior, but for a constant."""
    import numpy as np
    from scipy.linalg import solve_triangular

    try:
        factor = np.linalg.cholesky(_compute_covariance(logs, apart))
    except np.linalg.LinAlgError:
        return 1e6
    whitened = solve_triangular(factor, values, lower=True)
    variance = max(float(whitened @ whitened) / len(values), _JITTER)
    likelihood = 0.5 * len(values) * np.log(variance)
    prior = 0.5 * ((logs[:-1] - np.log(_LENGTH)) ** 2).sum()
    prior += 0.5 * ((logs[-1] - np.log(_NOISE)) / _NOISE_SPREAD) ** 2
    return float(likelihood + np.log(np.diag(factor)).sum() + prior)
