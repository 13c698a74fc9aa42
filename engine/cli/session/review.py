"""Check a review form and print what accepting it would change."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", nargs="?", default="last", help="a session's id; default: last")
    json_argument(parser)


def run(options: Namespace) -> int:
    """Print it; return 1 when it could not be accepted."""
    from kernelkb.actions.reviews import limits, review
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.reviews import outlook_lines

    found = review(options.session)
    if options.json:
        print_json(found)
    else:
        print_lines(outlook_lines(found, limits()))
    return int(bool(found.problems))
