"""Print what was measured of a kernel, newest first.

kb history row_softmax --variant vectorized --workload medium
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_filter_arguments, add_json_argument, parse_positive_int


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("kernel", help="the kernel's name")
    parser.add_argument("--variant", metavar="ID", help="only this one")
    add_filter_arguments(parser)
    parser.add_argument(
        "--limit", type=parse_positive_int, default=20, metavar="N", help="default 20"
    )
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print it."""
    from kernelkb.actions.measurements import list_measurements
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.history import format_history_lines

    found = list_measurements(
        options.kernel, options.variant, options.workload, options.device, options.limit
    )
    if options.json:
        print_json([one.model_dump(mode="json", exclude={"samples"}) for one in found])
    else:
        print_lines(format_history_lines(found))
    return 0
