"""How many times as fast is one measurement as another? An interval, or how to get one.

kb compare 1f3a9c 77d0e2
kb compare naive vectorized --kernel row_softmax --workload medium
kb compare best 77d0e2
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import json_argument, place_arguments


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    told = "an id or how it begins, a variant (its newest bench), or best"
    parser.add_argument("a", metavar="A", help=told)
    parser.add_argument("b", metavar="B", help="the same; above 1x, it is the faster one")
    parser.add_argument("--kernel", metavar="NAME", help="whose variants are meant")
    place_arguments(parser)
    json_argument(parser)


def run(options: Namespace) -> int:
    """Print the comparison; return 1 when there is no ratio."""
    from kernelkb.actions.measurements import compared
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.history import chosen_line, comparison_line

    found = compared(options.a, options.b, options.kernel, options.workload, options.device)
    comparison = found.comparison
    if options.json:
        print_json(comparison)
    else:
        print_lines(
            [
                chosen_line("a", found.chosen[0], found.a),
                chosen_line("b", found.chosen[1], found.b),
                comparison_line(comparison),
                *([f"  $ {comparison.command}"] if comparison.command else []),
            ]
        )
    return int(comparison.ratio is None)
