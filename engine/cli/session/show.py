"""Print a session's plan and entries."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", nargs="?", default="last", help="a session's id; default: last")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print them."""
    from kernelkb.actions.sessions import load_session
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.sessions import format_entry_lines, format_header_lines

    session = load_session(options.session)
    if options.json:
        print_json(session)
        return 0
    print_lines(format_header_lines(session))
    for entry in session.entries:
        print_lines(format_entry_lines(entry))
    return 0
