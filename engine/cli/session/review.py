"""Check a review form and print what accepting it would change."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", nargs="?", default="last", help="a session's id; default: last")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print it; return 1 when it could not be accepted."""
    from kernelkb.actions.reviews import get_threshold_values, preview_review
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.reviews import format_outlook_lines

    found = preview_review(options.session)
    if options.json:
        print_json(found)
    else:
        print_lines(format_outlook_lines(found, get_threshold_values()))
    return int(bool(found.problems))
