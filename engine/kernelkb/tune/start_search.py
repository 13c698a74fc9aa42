"""Starts the search that the options ask for, with what is known already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kernelkb.errors import BadValueError
from kernelkb.record.tuning_journal import TuningJournal
from kernelkb.tune.find_prior import find_prior
from kernelkb.tune.plan import TuningPlan
from kernelkb.tune.strategies.encode import encode_rows
from kernelkb.tune.strategies.model_search import ModelSearch, Search
from kernelkb.tune.strategies.prior import list_promising
from kernelkb.tune.strategies.random_search import RandomSearch

DEFAULT_BUDGET_S = 600.0
_PROMISING = 4
"""Configurations that are fast elsewhere, and that TPE tries first."""


class TuningOptions(NamedTuple):
    """How long to search, and how."""

    budget_s: float = DEFAULT_BUDGET_S
    max_trials: int | None = None
    """New trials; None: as many as the budget allows."""
    seed: int = 0
    strategy: str = "model"
    """``model``, ``tpe`` for Optuna's, or ``random``."""
    judge: bool = True
    """Whether the winner is checked on all workloads and timed against the kernel's rivals."""
    why: bool = False
    """Whether winner and default are profiled to tell why one is faster; takes two profiles."""


def start_search(
    plan: TuningPlan, options: TuningOptions, journal: TuningJournal, seeds: Sequence[int]
) -> Search:
    """Return a search that knows the trials of earlier runs.

    Args:
        plan: What to search.
        options: Strategy and seed.
        journal: With the trials of earlier runs.
        seeds: Places of earlier winners, to be tried after the default.

    Raises:
        BadValueError: There is no such strategy.
    """
    known = [
        (index, trial.time_us)
        for trial in journal.trials
        if (index := plan.space.find_index(trial.configuration)) is not None
    ]
    first = [*([] if plan.default_index is None else [plan.default_index]), *seeds]
    if options.strategy == "random":
        return RandomSearch(plan.space, options.seed, known=known, first=first)
    prior = find_prior(plan)
    if options.strategy == "model":
        points = encode_rows(plan.space.rows)
        return ModelSearch(points, options.seed, known=known, first=first, prior=prior)
    if options.strategy == "tpe":
        from kernelkb.tune.strategies.tpe_search import TpeSearch

        promising = list_promising(prior, _PROMISING) if prior is not None else []
        return TpeSearch(plan.space, options.seed, known=known, first=[*first, *promising])
    raise BadValueError(f"no strategy {options.strategy!r}; there are model, tpe and random")
