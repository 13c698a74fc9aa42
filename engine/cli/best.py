"""Print the fastest valid measurement of each kernel, workload and device.

kb best row_softmax
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import json_argument, place_arguments


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("kernel", nargs="?", help="only this one; default: all")
    place_arguments(parser)
    json_argument(parser)


def run(options: Namespace) -> int:
    """Print them."""
    from kernelkb.actions.measurements import best
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.history import best_lines

    found = best(options.kernel, options.workload, options.device)
    if options.json:
        print_json([one.model_dump(mode="json", exclude={"samples"}) for one in found])
    else:
        print_lines(best_lines(found))
    return 0
