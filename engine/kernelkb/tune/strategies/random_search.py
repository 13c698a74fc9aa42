"""Draws configurations by chance: what others are compared with, and how a space is recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernelkb.tune.space import EnumeratedSpace


class RandomSearch:
    """Draws configurations without looking at the results."""

    def __init__(
        self,
        space: EnumeratedSpace,
        seed: int,
        *,
        known: Sequence[tuple[int, float | None]] = (),
        first: Sequence[int] = (),
        prior: NDArray[np.float64] | None = None,  # noqa: ARG002 the same for all strategies
    ) -> None:
        """Draw an order of the space, of which ``first`` comes first; a prior tells it nothing."""
        begun = {index for index, _ in known} | set(first)
        drawn = np.random.default_rng(seed).permutation(len(space.rows)).tolist()
        left = [index for index in drawn if index not in begun]
        measured = {index for index, _ in known}
        self._order = left + [index for index in reversed(first) if index not in measured]

    def propose(self) -> int | None:
        """Return the index of a configuration that was not proposed before; None: all were."""
        return self._order.pop() if self._order else None

    def record(self, index: int, time_us: float | None) -> None:
        """Learn nothing."""
