"""The command that lists and records the zoo: pairs of kernels that differ by one change."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from kernelkb.cli.options import parse_seconds
from kernelkb.errors import BadValueError

_MEASURED = "kernels/zoo/measured"
_REPORTS = "tests/data/zoo"


def add_zoo_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb zoo``."""
    parser.add_argument("verb", choices=("list", "record", "extract"), help="what to do")
    parser.add_argument("pairs", nargs="*", metavar="PAIR", help="record these; default all")
    parser.add_argument(
        "--measured", metavar="FOLDER", default=_MEASURED, help=f"numbers; default {_MEASURED}"
    )
    parser.add_argument(
        "--reports",
        metavar="FOLDER",
        default=_REPORTS,
        help=f"binary reports; default {_REPORTS}",
    )
    parser.add_argument(
        "--budget", type=parse_seconds, metavar="S", help="seconds of timing a pair; default 0.4"
    )
    parser.add_argument(
        "--only", choices=("time", "profile"), help="record only the times, or only the profiles"
    )
    parser.add_argument(
        "--missing", action="store_true", help="leave out what was recorded on this GPU"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_zoo(options: Namespace) -> int:
    """List the pairs, record them on this machine's GPU, or read their reports again.

    kb zoo list
    kb zoo record histogram_few_bins
    kb zoo record --only time --missing
    kb zoo extract
    """
    from kernelkb.actions.score.zoo_record import STAGES, record_pairs
    from kernelkb.actions.score.zoo_reports import extract_metrics
    from kernelkb.cli.output import (
        PARTLY_RECORDED,
        interruptible_measurement,
        print_progress,
        print_record,
    )

    if options.verb != "record" and options.pairs:
        raise BadValueError(f"kb zoo {options.verb} takes no names; leave them out")
    if options.verb == "list":
        return _print_pairs(options)
    folders = Path(options.measured), Path(options.reports)
    if options.verb == "extract":
        rows = extract_metrics(*folders)
    else:
        with interruptible_measurement("zoo record", interrupted=PARTLY_RECORDED):
            rows = record_pairs(
                options.pairs,
                *folders,
                stages=(options.only,) if options.only else STAGES,
                missing=options.missing,
                budget_s=options.budget or 0.4,
                show_progress=print_progress,
            )
    lines = [f"{row.kernel}: {row.speedup:.2f}x, {row.report or 'no report'}" for row in rows]
    print_record(rows, lines, as_json=options.json)
    return int(not rows)


def _print_pairs(options: Namespace) -> int:
    from kernelkb.actions.score.zoo_pairs import list_pairs
    from kernelkb.cli.output import print_record

    pairs = list_pairs()
    lines = [f"{name}: {k.pair.kind}, {k.pair.fix}" for name, k in pairs.items() if k.pair]
    print_record(list(pairs.values()), lines, as_json=options.json)
    return 0
