"""Starts the search that the options ask for, with what is known already: here and elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.errors import KbError
from kernelkb.record.tuning_journal import TuningJournal, read_journal
from kernelkb.tune.plan import TuningPlan
from kernelkb.tune.strategies.table import DEFAULT_STRATEGY, Search, find_strategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kernelkb.tune.strategies.predictions import OtherTrials

DEFAULT_BUDGET_S = 600.0
_SAME = ("kernel", "variant", "target")
_MAX_JOURNALS = 20
"""Journals that are read: the newest."""


class TuningOptions(NamedTuple):
    """How long to search, and how."""

    budget_s: float = DEFAULT_BUDGET_S
    max_trials: int | None = None
    """New trials; None: as many as the budget allows."""
    seed: int = 0
    strategy: str = DEFAULT_STRATEGY
    """A name in ``STRATEGIES``."""
    judge: bool = True
    """Whether the winner is checked on all workloads and timed against the kernel's rivals."""
    why: bool = False
    """Whether winner and default are profiled to tell why one is faster; takes two profiles."""


def start_search(
    plan: TuningPlan, options: TuningOptions, journal: TuningJournal, seeds: Sequence[int]
) -> Search:
    """Return a search that knows the trials of earlier runs, and of searches elsewhere.

    Args:
        plan: What to search.
        options: Strategy and seed.
        journal: With the trials of earlier runs.
        seeds: Indexes of earlier winners, to be tried after the default.

    Raises:
        BadValueError: There is no such strategy.
    """
    strategy = find_strategy(options.strategy)
    known = [
        (index, trial.time_us)
        for trial in journal.trials
        if (index := plan.space.find_index(trial.configuration)) is not None
    ]
    first = [*([] if plan.default_index is None else [plan.default_index]), *seeds]
    prior = find_prior(plan) if strategy.uses_prior else None
    start = strategy.load()
    return start(plan.space, options.seed, known=known, first=first, prior=prior)


def find_prior(plan: TuningPlan) -> NDArray[np.float64] | None:
    """Return what other journals of the variant predict for each feasible configuration.

    They are those of another workload, device, driver, compiler or version of the source, in the
    folder of the plan's journal. A journal that cannot be read is left out.

    Args:
        plan: What is searched.

    Returns:
        (configurations, other spaces) as ``build_prior`` returns, for ``StartSearch``; None: no
        other search tells enough.
    """
    from kernelkb.tune.strategies.predictions import build_prior

    return build_prior(plan.space, list(_list_other_trials(plan)))


def _list_other_trials(plan: TuningPlan) -> Iterator[OtherTrials]:
    found = [path for path in plan.journal.parent.glob("*.jsonl") if path != plan.journal]
    newest = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest[:_MAX_JOURNALS]:
        identity = _read_identity(path)
        if all(identity.get(name) == plan.identity[name] for name in _SAME):
            try:
                trials = read_journal(path)
            except KbError:
                continue
            yield [(trial.configuration, trial.time_us) for trial in trials]


def _read_identity(path: Path) -> Mapping[str, str]:
    """Return the first line of a journal; empty if it is damaged."""
    try:
        with path.open(encoding="utf-8") as file:
            identity = json.loads(file.readline())["identity"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return identity if isinstance(identity, dict) else {}
