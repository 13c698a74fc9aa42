"""Make a review form part of the project's knowledge, or take it back."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", nargs="?", default="last", help="a session's id; default: last")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--reviewer", metavar="NAME", help="who filled in the form")
    how.add_argument("--undo", action="store_true", help="take back what was accepted")
    json_argument(parser)


def run(options: Namespace) -> int:
    """Do it."""
    from kernelkb.actions.reviews import accept, limits, undo
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.reviews import outlook_lines

    if options.undo:
        removed = str(undo(options.session))
        if options.json:
            print_json({"removed": removed})
        else:
            print_lines([f"removed {removed}"])
        return 0
    before = limits()
    found = accept(options.session, reviewer=options.reviewer)
    if options.json:
        print_json(found)
    else:
        print_lines(outlook_lines(found, before, done=True))
    return 0
