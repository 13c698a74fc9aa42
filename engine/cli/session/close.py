"""End a session."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument
from kernelkb.cli.session.log import add_lesson_arguments, read_lesson_options


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", nargs="?", metavar="ID", help="default: the open one")
    add_lesson_arguments(parser)
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Close it."""
    from kernelkb.actions.sessions import close_session
    from kernelkb.cli.output import print_json, print_lines

    entry, path = close_session(options.session, read_lesson_options(options))
    if options.json:
        print_json(entry)
    else:
        print_lines([f"closed {path}"])
    return 0
