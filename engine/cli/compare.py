"""How many times as fast is one measurement as another? An interval, or how to get one.

kb compare 1f3a9c 77d0e2
kb compare naive vectorized --kernel row_softmax --workload medium
kb compare best 77d0e2
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_filter_arguments, add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    told = "an id or how it begins, a variant (its newest bench), or best"
    parser.add_argument("a", metavar="A", help=told)
    parser.add_argument("b", metavar="B", help="the same; above 1x, it is the faster one")
    parser.add_argument("--kernel", metavar="NAME", help="whose variants are meant")
    add_filter_arguments(parser)
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print the comparison; return 1 when there is no ratio."""
    from kernelkb.actions.measurements import select_and_compare
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.history import describe_choice, describe_comparison

    found = select_and_compare(
        options.a, options.b, options.kernel, options.workload, options.device
    )
    comparison = found.comparison
    if options.json:
        print_json(comparison)
    else:
        print_lines(
            [
                describe_choice("a", found.selected_by[0], found.a),
                describe_choice("b", found.selected_by[1], found.b),
                describe_comparison(comparison),
                *([f"  $ {comparison.command}"] if comparison.command else []),
            ]
        )
    return int(comparison.ratio is None)
