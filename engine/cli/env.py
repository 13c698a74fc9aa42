"""What this machine can build and measure; every gap with its cure.

kb env --target cuda
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--target", choices=("auto", "cpu", "cuda"), default="auto")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print a line for each thing; return 1 when something needed is missing."""
    from kernelkb.actions.bench_target import validate_machine
    from kernelkb.cli.output import print_json
    from kernelkb.cli.screen import print_environment

    found = validate_machine(options.target, fresh=True)
    if options.json:
        print_json(found)
    else:
        print_environment(found)
    return int(found.machine is None)
