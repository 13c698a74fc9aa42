"""Print the ids of all sessions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from engine.cli.options import json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    json_argument(parser)


def run(options: Namespace) -> int:
    """Print them."""
    from engine.actions.sessions import list_sessions
    from engine.cli.output import print_json, print_lines

    names = list_sessions()
    if options.json:
        print_json(names)
    else:
        print_lines(names)
    return 0
