"""Is every knowledge file, kernel.yaml and session valid? Prints path:line:column: field: message.

kb check
kb check path/to/knowledge
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("root", nargs="?", type=Path, help="a knowledge folder; default: shipped")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print every complaint; return 1 if there are any."""
    from kernelkb.actions.knowledge import check_knowledge
    from kernelkb.cli.output import print_json, print_lines

    problems, counted = check_knowledge(options.root)
    if options.json:
        print_json([problem._asdict() for problem in problems])
    else:
        print_lines(map(str, problems))
        summary = f"{len(problems)} problems" if problems else f"{counted}: no problems"
        sys.stderr.write(f"{summary}\n")
    return int(bool(problems))
