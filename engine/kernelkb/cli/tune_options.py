"""What ``kb tune`` makes of its options, on one device or on workers."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelkb.errors import BadValueError

if TYPE_CHECKING:
    from kernelkb.model.kernels.tuning import TuningResult, TuningTrial
    from kernelkb.tune.lanes.trial_recorder import ReportTrial
    from kernelkb.tune.plan import TuningPlan
    from kernelkb.tune.start_search import TuningOptions

STOPPED = "interrupted: all trials are kept; the same command goes on"


def make_tuning_options(options: Namespace) -> TuningOptions:
    """Return how long to search, and how."""
    from kernelkb.tune.start_search import TuningOptions

    return TuningOptions(
        options.budget,
        options.trials,
        options.seed,
        options.strategy,
        judge=not options.no_judge,
        why=options.why,
    )


def parse_only(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Read ``NAME=V,V`` of each ``--only``.

    Raises:
        BadValueError: It is written in another way.
    """
    only = {}
    for text in texts:
        found = re.fullmatch(r"([A-Za-z_]\w*)=(-?\d+(?:,-?\d+)*)", text)
        if found is None:
            raise BadValueError(f"--only {text!r} names no values; write BLOCK_M=64,128")
        only[found[1]] = tuple(map(int, found[2].split(",")))
    return only


def ignore_trial(_trial: TuningTrial, _best: TuningTrial | None) -> None:
    """Show nothing: the result is printed as JSON."""


def make_report(plan: TuningPlan, title: str = "") -> ReportTrial:
    """Return a function that prints a row for each trial.

    Args:
        plan: What is searched.
        title: Printed before each row, where several searches run.
    """
    from kernelkb.cli.output import print_lines
    from kernelkb.record.tuning_journal import read_journal
    from kernelkb.render.text.tuning_progress import TrialTable

    earlier = read_journal(plan.journal) if plan.journal.exists() else ()
    table = TrialTable(plan.space.values_by_name, plan.default, earlier)

    def show(trial: TuningTrial, best: TuningTrial | None) -> None:
        print_lines(title + line for line in table.format_trial(trial, best))
        sys.stdout.flush()  # a pipe would hold the rows back for minutes

    return show


def write_files(options: Namespace, plan: TuningPlan, result: TuningResult) -> None:
    """Write the page, the trials and the table that were asked for."""
    from kernelkb.tune.result_files import add_to_table, export_trials, write_tuning_page

    if options.page is not None:
        write_tuning_page(result, options.page)
    if options.export is not None:
        export_trials(result, options.export)
    if options.table is not None:
        add_to_table(plan, result, options.table)
