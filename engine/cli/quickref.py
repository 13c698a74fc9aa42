"""The quick reference, generated from the knowledge.

kb quickref            print it
kb quickref --write    write knowledge/QUICKREF.md
kb quickref --check    is that file fresh?
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="write knowledge/QUICKREF.md")
    add_json_argument(parser)
    how.add_argument("--check", action="store_true", help="return 1 when the file is not fresh")


def run(options: Namespace) -> int:
    """Print, write or check the page."""
    from kernelkb.actions.quickref import generate_quickref, is_quickref_fresh, write_quickref
    from kernelkb.cli.output import print_json

    file = write_quickref() if options.write else None
    stale = options.check and not is_quickref_fresh()
    if stale:
        sys.stderr.write("kb: knowledge/QUICKREF.md is stale; run kb quickref --write\n")
    if options.json:
        print_json(
            {
                "file": str(file) if file else None,
                "fresh": is_quickref_fresh(),
                "markdown": generate_quickref(),
            }
        )
    elif not options.check:
        sys.stdout.write(f"{file}\n" if file else generate_quickref())
    return int(stale)
