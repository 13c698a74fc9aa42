"""Shows a search to a model: its progress, its result in brief, and the next calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernelkb.progress import report_progress
from kernelkb.record.tuning_journal import read_journal
from kernelkb.render.text.tuning import describe_next, format_configuration, summarize_result
from kernelkb.units import format_duration
from kernelkb_mcp.views.results import TuneResult, TuningSummary

if TYPE_CHECKING:
    from kernelkb.model.kernels.tuning import ConfirmedConfiguration, TuningResult, TuningTrial
    from kernelkb.tune.plan import TuningPlan


class TrialReporter:
    """Reports each trial as progress: how many, the best time, its gain over the default.

    Args:
        plan: What is searched; trials of earlier runs are read from its journal.
    """

    def __init__(self, plan: TuningPlan) -> None:
        space = plan.space
        self._feasible_count = len(space.rows)
        at = plan.default_index
        self._default = None if at is None else space.get_configuration(at)
        self._default_us: float | None = None
        known = read_journal(plan.journal) if plan.journal.exists() else []
        for trial in known:
            self._note_default(trial)
        report_progress(f"{len(known)} of {self._feasible_count:,} configurations tried before")

    def __call__(self, trial: TuningTrial, best: TuningTrial | None) -> None:
        """Report one trial, and the fastest so far."""
        self._note_default(trial)
        text = f"{trial.number + 1} of {self._feasible_count:,} configurations tried"
        if best is None or not best.time_us:
            report_progress(f"{text}, none timed")
            return
        text += f", best {format_duration(best.time_us)}"
        if self._default_us:
            text += f", {self._default_us / best.time_us:.3g}x over the default"
        report_progress(text)

    def _note_default(self, trial: TuningTrial) -> None:
        if trial.time_us and trial.configuration == self._default:
            self._default_us = trial.time_us


def build_tune_result(plan: TuningPlan, result: TuningResult, call: str) -> TuneResult:
    """Return the result of a search without its single trials.

    Args:
        plan: What was searched.
        result: What was found.
        call: The call that goes on with the search.
    """
    return TuneResult(
        summary=summarize_result(result),
        tuning=_leave_out_trials(result),
        next=tuple(_iter_next_calls(plan, result, call)),
    )


def _leave_out_trials(result: TuningResult) -> TuningSummary:
    names = TuningSummary.model_fields.keys() - {"trial_counts"}
    counts = Counter(trial.status for trial in result.trials)
    return TuningSummary(
        **{name: getattr(result, name) for name in names}, trial_counts=dict(counts.most_common())
    )


def _iter_next_calls(plan: TuningPlan, result: TuningResult, call: str) -> Iterator[str]:
    which = f"kernel={result.kernel!r}, variant={result.variant!r}, target={result.target!r}"
    if result.is_refused:
        wrong = format_configuration(result.confirmed[0].configuration)
        cure = f"correct {result.variant}, or exclude {wrong} by a constraint in kernel.yaml"
        yield cure
        yield call
        return
    if not result.confirmed:
        yield f"build_kernel({which})"
    elif result.winner is None:
        yield f"profile_kernel({which})"
    else:
        without = describe_next(result).removeprefix("next: ")
        values = _describe_defaults(plan, result.winner)
        yield f"set {values}; without an edit, `{without}` in a shell builds it"
        yield f"bench_kernel({which})"
    if len(result.trials) < result.feasible_count:  # the same call goes on
        yield call


def _describe_defaults(plan: TuningPlan, winner: ConfirmedConfiguration) -> str:
    """Return the winner's values, and where they become the default ones."""
    subject, project = plan.bench_target.subject, plan.bench_target.project
    folder = subject.kernel_folder.folder
    where = f"kernels/{folder.name}/{subject.variant.source}"
    if not folder.is_relative_to(project):
        where += f" (a copy of {folder})"
    values = format_configuration(winner.configuration)
    return f"{values} as the defaults in {where} and under tune in its kernel.yaml"
