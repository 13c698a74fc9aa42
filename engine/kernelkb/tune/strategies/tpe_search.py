"""Proposes configurations by Optuna's tree-structured Parzen estimator (TPE)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import create_trial

from kernelkb.tune.space import EnumeratedSpace
from kernelkb.tune.strategies.gaussian_process import list_promising

_MAX_ASKS = 200
"""Proposals of TPE in a row that are infeasible or known; then a free one is drawn."""
_PROMISING_COUNT = 4
"""Configurations that are fast elsewhere, and that are tried first."""


class TpeSearch:
    """Optuna's TPE over categorical tunables; what is infeasible or known is never measured.

    Categorical, not integer, parameters: on recorded spaces they needed a third of the
    evaluations.
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
        """Start as ``StartSearch`` says; of a prior the most promising are tried first."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = space
        self._free = set(range(len(space.rows)))
        self._random = np.random.default_rng(seed)
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        self._trials: dict[int, optuna.Trial] = {}
        promising = [] if prior is None else list_promising(prior, _PROMISING_COUNT)
        self._queue = [*first, *promising]
        self._results: dict[int, float | None] = {}
        for index, time_us in known:
            self._free.discard(index)
            self.record(index, time_us)

    def propose(self) -> int | None:
        """Return the index of a configuration that was not proposed before; None: all were."""
        while self._queue:
            index = self._queue.pop(0)
            if index in self._free:
                self._free.discard(index)
                return index
        for _ in range(_MAX_ASKS if self._free else 0):
            trial = self._study.ask()
            asked = {
                name: trial.suggest_categorical(name, values)
                for name, values in zip(self._space.names, self._space.values, strict=True)
            }
            found = self._space.find_index({name: int(value) for name, value in asked.items()})
            if found is not None and found in self._free:
                self._free.discard(found)
                self._trials[found] = trial
                return found
            known = self._results.get(found) if found is not None else None
            self._study.tell(trial, math.log(known) if known else self._find_worst())
        return self._draw_free()

    def record(self, index: int, time_us: float | None) -> None:
        """Learn the time of a configuration in microseconds; None: it failed."""
        self._results[index] = time_us
        value = math.log(time_us) if time_us else self._find_worst()
        trial = self._trials.pop(index, None)
        if trial is not None:
            self._study.tell(trial, value)
            return
        distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values)
            for name, values in zip(self._space.names, self._space.values, strict=True)
        }
        params = self._space.get_configuration(index)
        self._study.add_trial(create_trial(params=params, distributions=distributions, value=value))

    def _find_worst(self) -> float:
        """Return a bad value for what cannot be measured, not far above the slowest result."""
        times = [one for one in self._results.values() if one]
        return math.log(max(times)) + 1.0 if times else 20.0

    def _draw_free(self) -> int | None:
        if not self._free:
            return None
        index = int(self._random.choice(sorted(self._free)))
        self._free.discard(index)
        return index
