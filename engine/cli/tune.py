"""The command that searches the configurations of a tunable variant."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from kernelkb.cli.options import add_kernel_arguments, parse_positive_int

if TYPE_CHECKING:
    from kernelkb.actions.tune_plan import TuningPlan
    from kernelkb.model.tuning import TuningResult

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def add_tune_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb tune``."""
    add_kernel_arguments(parser, optional=True)
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
        choices=("model", "tpe", "random"),
        default="model",
        help="model: a Gaussian process; tpe: Optuna's; random: only with --simulate",
    )
    parser.add_argument(
        "--no-judge",
        action="store_true",
        help="leave out the last step: the full check of the fastest one, and its bench",
    )
    parser.add_argument("--plan", action="store_true", help="only list what would be searched")
    parser.add_argument(
        "--simulate",
        type=Path,
        metavar="FILE",
        help="replay on a recorded space: a cache of Kernel Tuner or a T4 file",
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
    kb tune --simulate space.json.gz --trials 100
    """
    from kernelkb.errors import BadValueError

    if options.simulate is not None:
        return _simulate(options)
    if options.kernel is None:
        raise BadValueError("name a kernel, or a recorded space: kb tune --simulate FILE")
    if options.strategy == "random":
        raise BadValueError("--strategy random needs --simulate FILE")
    return _search(options)


def _simulate(options: Namespace) -> int:
    from kernelkb.actions.tune_replay import simulate_search
    from kernelkb.cli.output import print_record
    from kernelkb.render.tuning import format_simulation

    found = simulate_search(options.simulate, options.strategy, options.seed, options.trials or 400)
    return print_record(found, format_simulation(found), as_json=options.json)


def _search(options: Namespace) -> int:
    from kernelkb.actions.tune import TuningOptions, tune
    from kernelkb.actions.tune_plan import plan_tuning
    from kernelkb.cli.output import interruptible_measurement, print_lines, print_record
    from kernelkb.render.tuning import format_plan, format_result, format_trial

    plan = plan_tuning(options.kernel, options.variant, options.target, options.workload)
    if options.plan:
        return print_record(
            plan.space.describe(), format_plan(plan.title, plan.space), as_json=options.json
        )
    quiet = bool(options.json)
    if not quiet:
        print_lines(format_plan(plan.title, plan.space))
    wanted = TuningOptions(
        options.budget, options.trials, options.seed, options.strategy, not options.no_judge
    )
    shown = f"tune {options.kernel} {plan.bench_target.subject.variant.id}"
    stopped = "interrupted: all trials are kept; the same command goes on"
    with interruptible_measurement(shown, interrupted=stopped):
        result = tune(
            plan,
            wanted,
            lambda trial, best: None if quiet else print_lines([format_trial(trial, best)]),
        )
    _write_files(options, plan, result)
    return print_record(result, format_result(result), as_json=options.json)


def _write_files(options: Namespace, plan: TuningPlan, result: TuningResult) -> None:
    from kernelkb.actions.tune_replay import add_to_table, export_trials

    if options.export is not None:
        export_trials(result, options.export)
    if options.table is not None:
        add_to_table(plan, result, options.table)
