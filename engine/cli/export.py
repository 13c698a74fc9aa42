"""Write all measurements to a file: JSON Lines lose nothing, the formats of others some.

kb export measurements.jsonl
kb export --format t4 results.json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from engine.cli.options import json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="is replaced where it exists")
    parser.add_argument(
        "--format",
        choices=("jsonl", "t4", "flashinfer"),
        default="jsonl",
        help="t4: Kernel Tuner's; flashinfer: traces of FlashInfer-Bench",
    )
    json_argument(parser)


def run(options: Namespace) -> int:
    """Write it, and say how much."""
    from engine.actions.measurements import export
    from engine.cli.output import print_json, print_lines
    from engine.render.history import exchanged_lines

    done = export(options.format, options.file)
    if options.json:
        print_json({"total": done.total, "left_out": done.left_out})
    else:
        what = f"{done.total} measurements in {options.file}"
        print_lines(exchanged_lines(what, done.left_out))
    return 0
