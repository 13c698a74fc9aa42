"""Print a session's entries."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from engine.cli.options import json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", nargs="?", default="last", help="a session's id; default: last")
    json_argument(parser)


def run(options: Namespace) -> int:
    """Print them."""
    from engine.actions.sessions import show_session
    from engine.cli.output import print_json, print_lines
    from engine.render.sessions import entry_lines

    entries = show_session(options.session)
    if options.json:
        print_json(entries)
    else:
        for entry in entries:
            print_lines(entry_lines(entry))
    return 0
