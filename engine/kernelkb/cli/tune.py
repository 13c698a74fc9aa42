"""The command that searches the configurations of a tunable variant."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from kernelkb.cli.options import add_kernel_arguments, parse_positive_int
from kernelkb.cli.tune_options import (
    STOPPED,
    ignore_trial,
    make_report,
    make_tuning_options,
    parse_only,
    write_files,
)
from kernelkb.cli.tune_workers import search_on_workers
from kernelkb.cli.workers_options import add_workers_arguments
from kernelkb.tune.strategies.table import DEFAULT_STRATEGY, STRATEGIES

if TYPE_CHECKING:
    from kernelkb.model.kernels.tuning import TuningResult
    from kernelkb.tune.lanes.trial_recorder import ReportTrial
    from kernelkb.tune.plan import TuningPlan

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
        "--page", type=Path, metavar="FILE", help="write convergence, values and winner as HTML"
    )
    parser.add_argument("--export", type=Path, metavar="FILE", help="write all trials as T4 JSON")
    parser.add_argument(
        "--table",
        type=Path,
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
    from kernelkb.errors import BadValueError

    if options.arch is not None and not options.plan:
        raise BadValueError("--arch only lists a plan, since no GPU can try it; add --plan")
    if options.page is not None:
        from kernelkb.tune.result_files import require_page_folder

        require_page_folder(options.page)
    if options.workers is not None:
        return search_on_workers(options)
    return _search(options)


def _search(options: Namespace) -> int:
    from kernelkb.cli.output import print_record
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
    from kernelkb.cli.output import interruptible_measurement, print_lines
    from kernelkb.render.text.tuning import format_plan
    from kernelkb.tune.tune import tune

    report: ReportTrial = ignore_trial
    if not options.json:
        print_lines(format_plan(plan.title, plan.space.describe(), plan.space.values_by_name))
        report = make_report(plan)
    shown = f"tune {options.kernel} {plan.bench_target.subject.variant.id}"
    with interruptible_measurement(shown, interrupted=STOPPED):
        return tune(plan, make_tuning_options(options), report)
