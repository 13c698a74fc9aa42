"""The command that scores the advice on measured pairs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path


def add_score_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb score``."""
    parser.add_argument(
        "--measured", metavar="FOLDER", help="recordings of kb zoo record; default kernels/zoo"
    )
    parser.add_argument(
        "--reports", metavar="FOLDER", help="their binary reports; scores lines of the source too"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_score(options: Namespace) -> int:
    """Score the advice on pairs of kernels that differ by one measured change.

    The widths of intervals are fitted without the pairs of the same operation.

    kb score
    kb score --reports tests/data/zoo
    """
    from kernelkb.actions.score.score import score_advice
    from kernelkb.cli.output import print_record
    from kernelkb.render.text.score import format_score_lines

    measured, reports = (
        Path(name) if name else None for name in (options.measured, options.reports)
    )
    score = score_advice(measured, reports)
    return print_record(score, format_score_lines(score), as_json=options.json)
