"""Print all sessions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    json_argument(parser)


def run(options: Namespace) -> int:
    """Print them."""
    from kernelkb.actions.sessions import list_sessions
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.sessions import session_lines

    found = list_sessions()
    if options.json:
        print_json(found)
    else:
        print_lines(session_lines(found))
    return 0
