"""Plays a search on a recorded space, and counts how many measurements it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kernelkb.tune.encode import encode_rows
from kernelkb.tune.recorded_space import RecordedSpace
from kernelkb.tune.search import ModelSearch, Search
from kernelkb.tune.space import EnumeratedSpace
from kernelkb.tune.tpe_search import TpeSearch


class RandomSearch:
    """Draws configurations without looking at the results."""

    def __init__(self, space: EnumeratedSpace, seed: int) -> None:
        import numpy as np

        self._order = np.random.default_rng(seed).permutation(len(space.rows)).tolist()

    def propose(self) -> int | None:
        """Return the index of a configuration that was not proposed before; None: all were."""
        return self._order.pop() if self._order else None

    def record(self, index: int, time_us: float | None) -> None:
        """Learn nothing."""


def start_model_search(space: EnumeratedSpace, seed: int) -> Search:
    """Return the search that ``kb tune`` uses by default."""
    return ModelSearch(encode_rows(space.rows), seed)


STRATEGIES: dict[str, Callable[[EnumeratedSpace, int], Search]] = {
    "model": start_model_search,
    "tpe": TpeSearch,
    "random": RandomSearch,
}
"""By name: what starts a search with a seed."""


class ReplayedSearch(NamedTuple):
    """One search on a recorded space."""

    best_times: list[float]
    """The best time after each measurement; failed configurations count as one."""
    solved_at: int | None
    """Measurements until a time within the tolerance of the best; None: not reached."""


def replay_search(
    recorded: RecordedSpace, search: Search, budget: int, tolerance: float = 0.05
) -> ReplayedSearch:
    """Return how a search went, until it came near the best time or the budget was used.

    Args:
        recorded: The space, with all times.
        search: A new search over it.
        budget: Most measurements.
        tolerance: Share above the best time that counts as solved.
    """
    target = recorded.best * (1 + tolerance)
    best_times: list[float] = []
    best = float("inf")
    while len(best_times) < budget:
        index = search.propose()
        if index is None:
            break
        time = float(recorded.times[index])
        search.record(index, time if time < float("inf") else None)
        best = min(best, time)
        best_times.append(best)
        if best <= target:
            return ReplayedSearch(best_times, len(best_times))
    return ReplayedSearch(best_times, None)
