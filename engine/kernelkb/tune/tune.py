"""Searches the configurations of a variant: propose, build, check, time, confirm."""

from __future__ import annotations

import time

from kernelkb.measure.bench.trials import TrialProcess
from kernelkb.model.kernels.tuning import TuningResult
from kernelkb.record.tuning_journal import open_journal
from kernelkb.tune.confirm import confirm_fastest, judge_winner
from kernelkb.tune.lanes.local_lane import LocalLane, make_local_lane
from kernelkb.tune.lanes.search_loop import DeviceSearch, run_searches
from kernelkb.tune.lanes.trial_recorder import ReportTrial, TrialRecorder
from kernelkb.tune.outcome import conclude, make_result
from kernelkb.tune.plan import TuningPlan, require_packages
from kernelkb.tune.start_search import TuningOptions, start_search
from kernelkb.tune.winner import find_seeds

CONFIRM_SHARE = 0.1
"""Of the budget, kept for measuring the fastest again."""


def tune(
    plan: TuningPlan,
    options: TuningOptions,
    report: ReportTrial = lambda _trial, _best: None,
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
        seeds = find_seeds(plan)
        search = start_search(plan, options, journal, seeds)
        deadline = started + options.budget_s * (1 - CONFIRM_SHARE)
        recorder = TrialRecorder(plan, search, journal, report)
        device = DeviceSearch(plan, search, recorder, [make_local_lane(plan)])
        with LocalLane(plan, process) as lane:
            run_searches(lane, [device], deadline, options.max_trials)
        confirmed, default_us = confirm_fastest(plan, process, journal.trials)
    judged = judge_winner(plan, confirmed) if options.judge else None
    found = make_result(plan, journal.trials, resumed, seeds).model_copy(
        update={"confirmed": confirmed, "default_us": default_us, "bench": judged}
    )
    return conclude(plan, found, started, why=options.why)
