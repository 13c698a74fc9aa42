"""Hold the newest benches against the promoted ones; promote what is confirmed to be faster.

A regression is a whole interval below --fail-under, or answers that are wrong now. Noise is quiet.

kb regress
kb regress row_softmax --fail-under 0.95 --verbose
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from kernelkb.cli.options import add_filter_arguments, add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("kernel", nargs="?", help="only this one; default: all")
    add_filter_arguments(parser)
    parser.add_argument(
        "--fail-under",
        type=_parse_ratio,
        default=0.97,
        metavar="X",
        help="default 0.97: 3 %% may be lost",
    )
    parser.add_argument(
        "--renew",
        action="store_true",
        help="promote anew where nothing can be compared any more: a new judge, torch or baseline",
    )
    parser.add_argument("--verbose", action="store_true", help="also what is steady, and why")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print what changed; return 1 when something regressed."""
    from kernelkb.actions.measurements import check_project_regressions
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.history import format_regression_lines

    found = check_project_regressions(
        options.kernel,
        options.workload,
        options.device,
        options.fail_under,
        renew=options.renew,
    )
    if options.json:
        print_json(found)
    else:
        print_lines(format_regression_lines(found, verbose=options.verbose))
    return int(any(one.verdict == "regressed" for one in found))


def _parse_ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ArgumentTypeError(f"{text!r} is no ratio above 0 and up to 1, such as 0.97")
    return value
