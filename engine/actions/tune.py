"""Searches the configurations of a variant: propose, build, check, time, confirm."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kernelkb.actions.tune_confirm import confirm_fastest, judge_winner
from kernelkb.actions.tune_lanes import TuningLanes
from kernelkb.actions.tune_plan import TuningPlan, require_packages
from kernelkb.errors import BadValueError
from kernelkb.measure.trials import TrialProcess
from kernelkb.model.tuning import TuningResult, TuningTrial
from kernelkb.record.tuning_journal import TuningJournal, open_journal
from kernelkb.tune.encode import encode_rows
from kernelkb.tune.importance import rank_tunables
from kernelkb.tune.search import ModelSearch, Search

DEFAULT_BUDGET_S = 600.0
_CONFIRM_SHARE = 0.1
"""Of the budget, kept for measuring the fastest again."""


class TuningOptions(NamedTuple):
    """How long to search, and how."""

    budget_s: float = DEFAULT_BUDGET_S
    max_trials: int | None = None
    """New trials; None: as many as the budget allows."""
    seed: int = 0
    strategy: str = "model"
    """``model``, or ``tpe`` for Optuna's."""
    judge: bool = True
    """Whether the winner is checked on all workloads and timed against the kernel's rivals."""


def tune(
    plan: TuningPlan,
    options: TuningOptions,
    report: Callable[[TuningTrial, TuningTrial | None], None] = lambda _trial, _best: None,
) -> TuningResult:
    """Search until the budget is used or every configuration was tried, and confirm the fastest.

    Trials of earlier runs on the same source, device and versions are not repeated. Ctrl-C ends the
    search and keeps its trials.

    Args:
        plan: What to search; see ``plan_tuning``.
        options: Budget and strategy.
        report: Called after each trial, with the fastest so far.

    Raises:
        EnvironmentGapError: The packages of the extra ``tune`` are missing.
        BadValueError: Another process searches the same space.
        KbError: The reference fails, or the journal cannot be written.
    """
    started = time.monotonic()
    require_packages(options.strategy)
    with (
        open_journal(plan.journal, plan.identity) as journal,
        TrialProcess(plan.bench_target.subject, plan.workload) as process,
    ):
        resumed = len(journal.trials)
        search = _start_search(plan, options, journal)
        deadline = started + options.budget_s * (1 - _CONFIRM_SHARE)
        with TuningLanes(plan, search, process, journal) as lanes:
            lanes.run(deadline, options.max_trials, report)
        confirmed, default_us = confirm_fastest(plan, process, journal.trials)
    judged = judge_winner(plan, confirmed) if options.judge else None
    return _make_result(plan, journal.trials, resumed, started).model_copy(
        update={"confirmed": confirmed, "default_us": default_us, "bench": judged}
    )


def _make_result(
    plan: TuningPlan, trials: Sequence[TuningTrial], resumed: int, started: float
) -> TuningResult:
    subject = plan.bench_target.subject
    return TuningResult(
        **subject.identity_fields,
        workload=plan.workload,
        device=subject.machine.title,
        combination_count=plan.space.combination_count,
        feasible_count=len(plan.space.rows),
        trials=tuple(trials),
        resumed_count=resumed,
        seconds=time.monotonic() - started,
        device_s=sum(trial.trial_s for trial in trials[resumed:]),
        importance=_rank_importance(plan, trials),
        journal=str(plan.journal),
    )


def _rank_importance(plan: TuningPlan, trials: Sequence[TuningTrial]) -> dict[str, float]:
    timed = [
        (index, trial.time_us)
        for trial in trials
        if trial.time_us and (index := plan.space.find_index(trial.configuration)) is not None
    ]
    return rank_tunables(
        plan.space, [index for index, _ in timed], [time_us for _, time_us in timed]
    )


def _start_search(plan: TuningPlan, options: TuningOptions, journal: TuningJournal) -> Search:
    known = [
        (index, trial.time_us)
        for trial in journal.trials
        if (index := plan.space.find_index(trial.configuration)) is not None
    ]
    first = [] if plan.default_index is None else [plan.default_index]
    if options.strategy == "model":
        points = encode_rows(plan.space.rows)
        return ModelSearch(points, options.seed, known=known, first=first)
    if options.strategy == "tpe":
        from kernelkb.tune.tpe_search import TpeSearch

        return TpeSearch(plan.space, options.seed, known=known, first=first)
    raise BadValueError(f"no strategy {options.strategy!r}; there are model and tpe")
