"""Print a session's plan and entries."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", nargs="?", default="last", help="a session's id; default: last")
    json_argument(parser)


def run(options: Namespace) -> int:
    """Print them."""
    from kernelkb.actions.sessions import show_session
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.sessions import entry_lines, header_lines

    session = show_session(options.session)
    if options.json:
        print_json(session)
        return 0
    print_lines(header_lines(session))
    for entry in session.entries:
        print_lines(entry_lines(entry))
    return 0
