"""The command that searches the configurations of a tunable variant, on one device or many."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelkb.cli.options import add_kernel_arguments, parse_positive_int, parse_written_file
from kernelkb.cli.output import interruptible_measurement, print_lines, print_record
from kernelkb.cli.workers import add_workers_arguments, open_workers
from kernelkb.errors import BadValueError
from kernelkb.tune.strategies.table import DEFAULT_STRATEGY, STRATEGIES

if TYPE_CHECKING:
    from kernelkb.cluster.lanes import Lane
    from kernelkb.model.kernels.tuning import TuningResult, TuningTrial
    from kernelkb.tune.plan import TuningOptions, TuningPlan
    from kernelkb.tune.search_loop import ReportTrial


STOPPED = "interrupted: all trials are kept; the same command goes on"


def make_tuning_options(options: Namespace) -> TuningOptions:
    """Return how long to search, and how."""
    from kernelkb.tune.plan import TuningOptions

    return TuningOptions(
        options.budget,
        options.trials,
        options.seed,
        options.strategy,
        judge=not options.no_judge,
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
    from kernelkb.record.tuning_journal import read_journal
    from kernelkb.render.text.tuning import TrialTable

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


def search_on_workers(options: Namespace) -> int:
    """Search on workers, and print a result for each model of device."""
    from kernelkb.actions.project.bench_target import get_project_path
    from kernelkb.loading.kernels import load_kernel
    from kernelkb.model.kernels.tuning import TuningResults
    from kernelkb.render.text.tuning import format_result
    from kernelkb.tune.on_cluster import SearchRequest, tune_on_cluster

    _refuse_unsupported(options)
    load_kernel(options.kernel, get_project_path())  # an unknown name starts no worker
    plans: list[TuningPlan] = []

    def start_report(plan: TuningPlan, lanes: Sequence[Lane]) -> ReportTrial:
        plans.append(plan)
        return ignore_trial if options.json else _announce(plan, lanes)

    request = SearchRequest(
        options.kernel,
        options.variant,
        options.target,
        options.workload,
        parse_only(options.only),
    )
    with (
        interruptible_measurement(f"tune {options.kernel}", interrupted=STOPPED),
        open_workers(options) as cluster,
    ):
        results = tune_on_cluster(cluster, request, make_tuning_options(options), start_report)
    for plan, result in zip(plans, results, strict=True):
        write_files(_name_files(options, result, len(results)), plan, result)
    lines = [line for one in results for line in (one.device, *format_result(one))]
    return print_record(TuningResults(results=results), lines, as_json=options.json)


def _announce(plan: TuningPlan, lanes: Sequence[Lane]) -> ReportTrial:
    from kernelkb.render.text.tuning import format_plan

    print_lines(format_plan(plan.title, plan.space.describe(), plan.space.values_by_name))
    print_lines(f"  {lane.uuid} of {lane.host}" for lane in lanes)
    return make_report(plan)


def _refuse_unsupported(options: Namespace) -> None:
    if options.why:
        raise BadValueError("--why profiles on this host; leave it out with --workers")
    if options.plan:
        raise BadValueError("--plan starts no workers; leave --workers out, or name --arch")


def _name_files(options: Namespace, result: TuningResult, result_count: int) -> Namespace:
    """Return options whose files carry the name of the device, where there are several."""
    if result_count == 1:
        return options
    device = re.sub(r"[^a-z0-9]+", "-", result.device.lower()).strip("-")
    named = {
        name: path.with_stem(f"{path.stem}-{device}")
        for name in ("page", "export")
        if (path := getattr(options, name)) is not None
    }
    return Namespace(**{**vars(options), **named})


_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def add_tune_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb tune``."""
    add_kernel_arguments(parser)
    parser.add_argument(
        "--budget",
        type=_parse_duration,
        default=600.0,
        metavar="TIME",
        help="for everything: 90s, 20m, 1h; default 10m",
    )
    parser.add_argument("--trials", type=parse_positive_int, metavar="N", help="most new trials")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the draws; default 0")
    parser.add_argument(
        "--strategy",
        choices=tuple(STRATEGIES),
        default=DEFAULT_STRATEGY,
        help="; ".join(f"{name}: {one.help}" for name, one in STRATEGIES.items()),
    )
    parser.add_argument(
        "--no-judge",
        action="store_true",
        help="leave out the last step: the full check of the fastest one, and its bench",
    )
    parser.add_argument(
        "--why",
        action="store_true",
        help="profile the winner and the default, and tell why one is faster",
    )
    _add_plan_arguments(parser)
    _add_file_arguments(parser)
    add_workers_arguments(parser)


def _add_plan_arguments(parser: ArgumentParser) -> None:
    """Add what narrows the space, and what does without a device."""
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME=V,V",
        help="these values of a tunable; may be repeated",
    )
    parser.add_argument("--plan", action="store_true", help="only list what would be searched")
    parser.add_argument(
        "--arch",
        metavar="CC",
        help="with --plan: for this architecture, without a GPU: 9.0 or sm_90",
    )


def _add_file_arguments(parser: ArgumentParser) -> None:
    """Add the files that a search writes."""
    parser.add_argument(
        "--page",
        type=parse_written_file,
        metavar="FILE",
        help="write convergence, values and winner as HTML",
    )
    parser.add_argument(
        "--export", type=parse_written_file, metavar="FILE", help="write all trials as T4 JSON"
    )
    parser.add_argument(
        "--table",
        type=parse_written_file,
        metavar="FILE",
        help="add the winner to a table that a program loads: kernelkb.tune.best_table",
    )


def _parse_duration(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None or not float(found[1]):
        raise ArgumentTypeError(f"{text!r} is no duration; write 90s, 20m or 1h")
    return float(found[1]) * _UNITS[found[2]]


def run_tune(options: Namespace) -> int:
    """Search the configurations of a variant; measure the fastest again, in turns.

    Every configuration is built, checked and timed; a search that was stopped goes on. The variant
    lists its macros, their values and constraints under tune: in kernel.yaml.

    kb tune gemm --variant blocked --target cpu --budget 2m
    kb tune gemm --plan
    kb tune attention_fp16 --plan --arch 9.0
    kb tune attention_fp16 --page tune.html --why
    kb tune attention_fp16 --workers auto
    """
    if options.arch is not None and not options.plan:
        raise BadValueError("--arch only lists a plan, since no GPU can try it; add --plan")
    if options.page is not None:
        from kernelkb.tune.result_files import require_page_folder

        require_page_folder(options.page)
    if options.workers is not None:
        return search_on_workers(options)
    return _search(options)


def _search(options: Namespace) -> int:
    from kernelkb.render.text.tuning import format_plan, format_result
    from kernelkb.tune.plan import plan_tuning

    plan = plan_tuning(
        options.kernel,
        options.variant,
        options.target,
        options.workload,
        arch=options.arch,
        only=parse_only(options.only),
    )
    if options.plan:
        return print_record(
            plan.space.describe(),
            format_plan(plan.title, plan.space.describe(), plan.space.values_by_name),
            as_json=options.json,
        )
    result = _run(options, plan)
    write_files(options, plan, result)
    return print_record(result, format_result(result), as_json=options.json)


def _run(options: Namespace, plan: TuningPlan) -> TuningResult:
    from kernelkb.render.text.tuning import format_plan
    from kernelkb.tune.explain import explain_winner
    from kernelkb.tune.tune import tune

    report: ReportTrial = ignore_trial
    if not options.json:
        print_lines(format_plan(plan.title, plan.space.describe(), plan.space.values_by_name))
        report = make_report(plan)
    shown = f"tune {options.kernel} {plan.bench_target.subject.variant.id}"
    with interruptible_measurement(shown, interrupted=STOPPED):
        result = tune(plan, make_tuning_options(options), report)
        return explain_winner(plan, result) if options.why else result
