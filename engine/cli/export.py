"""Write all measurements to a file: JSON Lines lose nothing, the formats of others some.

kb export measurements.jsonl
kb export --format t4 results.json
kb export | gzip > measurements.jsonl.gz
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

from kernelkb.cli.options import add_json_argument
from kernelkb.errors import BadValueError


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="is replaced where it exists; default: the standard output",
    )
    parser.add_argument(
        "--format",
        choices=("jsonl", "t4", "flashinfer"),
        default="jsonl",
        help="t4: Kernel Tuner's; flashinfer: traces of FlashInfer-Bench",
    )
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Write it, and say how much."""
    from kernelkb.actions.measurements import export_to_file
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.history import format_transfer_lines

    if options.file is None:
        return _print_export(options)
    done = export_to_file(options.format, options.file)
    if options.json:
        print_json({"total": done.total, "left_out": done.left_out})
    else:
        what = f"{done.total} measurements in {options.file}"
        print_lines(format_transfer_lines(what, done.left_out))
    return 0


def _print_export(options: Namespace) -> int:
    """Print the export itself; what could not be carried over goes to the standard error.

    Raises:
        BadValueError: --json asks for something else than the export.
    """
    from kernelkb.actions.measurements import stream_export
    from kernelkb.cli.output import print_lines

    if options.json:
        raise BadValueError("--json says how much was exported; name a FILE for the export itself")
    left_out: Counter[str] = Counter()
    print_lines(piece.removesuffix("\n") for piece in stream_export(options.format, left_out))
    for why, count in sorted(left_out.items()):
        sys.stderr.write(f"kb: left out {count}: {why}\n")
    return 0
