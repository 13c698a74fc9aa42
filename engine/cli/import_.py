"""Add the measurements of a file: of kb export, T4 results, or traces of FlashInfer-Bench.

What is there already is not added twice. What another tool timed is kept and marked: it is never
the best known, and nothing is held against it.

kb import measurements.jsonl
kb import results.json --kernel gemm --workload large --device "NVIDIA L4"
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from kernelkb.cli.options import add_json_argument

_PLACE_OPTIONS = ("kernel", "workload", "device", "target")


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE")
    for name in _PLACE_OPTIONS[:-1]:
        parser.add_argument(f"--{name}", metavar="NAME", help="for T4 results that name none")
    parser.add_argument("--target", choices=("cpu", "cuda"), help="the same; default cuda")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Add them, and say how many; return 1 when some do not fit."""
    from kernelkb.actions.measurements import import_file
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.history import format_transfer_lines

    given = {name: getattr(options, name) for name in _PLACE_OPTIONS if getattr(options, name)}
    done = import_file(options.file, given)
    if options.json:
        print_json({"total": done.total, "new": done.new, "left_out": done.left_out})
    else:
        what = f"{done.total} measurements in {options.file}, {done.new} of them new"
        print_lines(format_transfer_lines(what, done.left_out))
    return int(bool(done.left_out))
