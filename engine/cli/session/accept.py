"""Make a review form part of the project's knowledge, or take it back."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", nargs="?", default="last", help="a session's id; default: last")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--reviewer", metavar="NAME", help="who filled in the form")
    how.add_argument("--undo", action="store_true", help="take back what was accepted")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Do it."""
    from kernelkb.actions.reviews import accept_review, get_threshold_values, undo_review
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.reviews import format_outlook_lines

    if options.undo:
        removed = str(undo_review(options.session))
        if options.json:
            print_json({"removed": removed})
        else:
            print_lines([f"removed {removed}"])
        return 0
    before = get_threshold_values()
    found = accept_review(options.session, reviewer=options.reviewer)
    if options.json:
        print_json(found)
    else:
        print_lines(format_outlook_lines(found, before, accepted=True))
    return 0
