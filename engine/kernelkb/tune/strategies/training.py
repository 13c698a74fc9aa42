"""Prepares the results of a search for a model: which ones, and their times as values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_TRAINING = 300
"""Results that a model is fitted to: the fastest half and the newest."""


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
    import numpy as np

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
