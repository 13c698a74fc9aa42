"""Write down a plan and open a session."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", metavar="ID", help="such as 2026-11-21-gemm; names the file")
    parser.add_argument("goal", help="what it is for, best as a number with a unit")
    parser.add_argument(
        "--plan",
        choices=("baseline", "optimize"),
        help="with gates and time budgets: up to a number to trust, or all the way",
    )
    parser.add_argument("--kernel", help="only work on this one is logged here; default: any")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Open it."""
    from kernelkb.actions.sessions import start_session
    from kernelkb.cli.output import print_json, print_lines

    opened = start_session(options.session, options.goal, options.plan, options.kernel)
    if options.json:
        print_json(opened.session)
        return 0
    print_lines([f"opened {opened.path}"])
    if opened.previous:
        print_lines([f"{opened.previous} is not closed; kb session close {opened.previous}"])
    return 0
