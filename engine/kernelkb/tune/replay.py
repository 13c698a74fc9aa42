"""Plays a search on a recorded space, and counts how many measurements it needs."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from kernelkb.tune.recorded_space import RecordedSpace
from kernelkb.tune.strategies.table import Search


class ReplayedSearch(NamedTuple):
    """One search on a recorded space."""

    best_times: list[float]
    """The best time after each measurement; failed configurations count as one."""
    solved_at: int | None
    """Measurements until a time within the tolerance of the best; None: not reached."""


def replay_search(
    recorded: RecordedSpace,
    search: Search,
    budget: int,
    tolerance: float = 0.05,
    outstanding: int = 1,
) -> ReplayedSearch:
    """Return how a search went, until it came near the best time or the budget was used.

    Results arrive in the order of the proposals.

    Args:
        recorded: The space, with all times.
        search: A new search over it.
        budget: Most measurements.
        tolerance: Share above the best time that counts as solved.
        outstanding: Proposals without a result at a time, as with several devices.
    """
    target = recorded.best * (1 + tolerance)
    best_times: list[float] = []
    best = float("inf")
    waiting: deque[int] = deque()
    for _ in range(budget):
        while len(waiting) < outstanding and (proposal := search.propose()) is not None:
            waiting.append(proposal)
        if not waiting:
            break
        index = waiting.popleft()
        time = float(recorded.times[index])
        search.record(index, time if time < float("inf") else None)
        best = min(best, time)
        best_times.append(best)
        if best <= target:
            return ReplayedSearch(best_times, len(best_times))
    return ReplayedSearch(best_times, None)
