"""Print what was measured of a kernel, newest first.

kb history row_softmax --variant vectorized --workload medium
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import json_argument, place_arguments, positive


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("kernel", help="the kernel's name")
    parser.add_argument("--variant", metavar="ID", help="only this one")
    place_arguments(parser)
    parser.add_argument("--limit", type=positive, default=20, metavar="N", help="default 20")
    json_argument(parser)


def run(options: Namespace) -> int:
    """Print it."""
    from kernelkb.actions.measurements import history
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.history import history_lines

    found = history(
        options.kernel, options.variant, options.workload, options.device, options.limit
    )
    if options.json:
        print_json([one.model_dump(mode="json", exclude={"samples"}) for one in found])
    else:
        print_lines(history_lines(found))
    return 0
