"""Print the fastest valid measurement of each kernel, workload and device.

kb best row_softmax
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_filter_arguments, add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("kernel", nargs="?", help="only this one; default: all")
    add_filter_arguments(parser)
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print them."""
    from kernelkb.actions.measurements import find_best_measurements
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.history import format_best_lines

    found = find_best_measurements(options.kernel, options.workload, options.device)
    if options.json:
        print_json([one.model_dump(mode="json", exclude={"samples"}) for one in found])
    else:
        print_lines(format_best_lines(found))
    return 0
