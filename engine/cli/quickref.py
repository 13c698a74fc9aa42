"""The quick reference, generated from the knowledge.

kb quickref            print it
kb quickref --write    write knowledge/QUICKREF.md
kb quickref --check    is that file fresh?
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="write knowledge/QUICKREF.md")
    how.add_argument("--check", action="store_true", help="return 1 when the file is not fresh")


def run(options: Namespace) -> int:
    """Print, write or check the page."""
    from engine.actions.quickref import fresh, page, write

    if options.check:
        if not fresh():
            sys.stderr.write("kb: knowledge/QUICKREF.md is stale; run kb quickref --write\n")
        return int(not fresh())
    if options.write:
        sys.stdout.write(f"{write()}\n")
    else:
        sys.stdout.write(page())
    return 0
