"""Print all sessions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print them."""
    from kernelkb.actions.sessions import list_sessions
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.sessions import format_session_lines

    found = list_sessions()
    if options.json:
        print_json(found)
    else:
        print_lines(format_session_lines(found))
    return 0
