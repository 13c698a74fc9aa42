"""Lists, records and scores the zoo: pairs of kernels that differ by one measured change.

``python -m benchmarks.zoo score`` asks for advice on every recorded kernel, and prints how often
it was right; the widths of intervals are fitted without the pairs of the same operation. Other
verbs::

    python -m benchmarks.zoo list
    python -m benchmarks.zoo record histogram_few_bins
    python -m benchmarks.zoo record --only time --missing
    python -m benchmarks.zoo extract
    python -m benchmarks.zoo score --reports tests/data/zoo
    python -m benchmarks.zoo reliability
    python -m benchmarks.zoo stop
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.zoo.pairs import list_pairs
from benchmarks.zoo.record import STAGES, record_pairs
from benchmarks.zoo.recordings import PairRecording
from benchmarks.zoo.reliability import describe_reliability
from benchmarks.zoo.reports import extract_metrics
from benchmarks.zoo.score import score_advice
from benchmarks.zoo.score_table import format_score_lines
from benchmarks.zoo.stop import format_library_lines, format_stop_lines

from kernelkb.cli.options import parse_seconds
from kernelkb.cli.output import (
    PARTLY_RECORDED,
    interruptible_measurement,
    print_lines,
    print_progress,
    print_record,
)
from kernelkb.errors import KbError

_MEASURED = Path("kernels/zoo/measured")
_REPORTS = Path("tests/data/zoo")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the verbs; each sets ``run``."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.zoo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="the pairs, each with its kind and its fix")
    listing.set_defaults(run=run_list)
    record = verbs.add_parser("record", help="time and profile pairs on this machine's GPU")
    record.add_argument("pairs", nargs="*", metavar="PAIR", help="record these; default all")
    record.add_argument(
        "--budget", type=parse_seconds, metavar="S", default=0.4, help="seconds of timing a pair"
    )
    record.add_argument("--only", choices=STAGES, help="only the times, or only the profiles")
    record.add_argument(
        "--missing", action="store_true", help="leave out what was recorded on this GPU"
    )
    record.set_defaults(run=run_record)
    extract = verbs.add_parser("extract", help="read the metrics from the binary reports again")
    extract.set_defaults(run=run_extract)
    for one in (record, extract):
        one.add_argument("--measured", metavar="FOLDER", type=Path, default=_MEASURED)
        one.add_argument("--reports", metavar="FOLDER", type=Path, default=_REPORTS)
    score = verbs.add_parser("score", help="how often the advice was right")
    score.add_argument("--measured", metavar="FOLDER", type=Path, help="default: kernels/zoo")
    score.add_argument(
        "--reports", metavar="FOLDER", type=Path, help="scores the lines of the source, too"
    )
    score.set_defaults(run=run_score)
    table = verbs.add_parser("reliability", help="how far a confidence can be trusted")
    table.add_argument("--measured", metavar="FOLDER", type=Path, help="default: kernels/zoo")
    table.set_defaults(run=run_reliability)
    stop = verbs.add_parser("stop", help="how often a stop near the floor is right")
    stop.add_argument(
        "--library", metavar="FOLDER", type=Path, help="of benchmarks.ceilings --library, instead"
    )
    stop.set_defaults(run=run_stop)
    for one in (listing, record, extract, score):
        one.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run_list(options: argparse.Namespace) -> int:
    """Print every pair with its kind and its fix."""
    pairs = list_pairs()
    lines = [f"{name}: {k.pair.kind}, {k.pair.fix}" for name, k in pairs.items() if k.pair]
    return print_record(list(pairs.values()), lines, as_json=options.json)


def run_record(options: argparse.Namespace) -> int:
    """Record pairs on this machine's GPU; 1 if none could be recorded."""
    with interruptible_measurement("zoo record", interrupted=PARTLY_RECORDED):
        rows = record_pairs(
            options.pairs,
            options.measured,
            options.reports,
            stages=(options.only,) if options.only else STAGES,
            missing=options.missing,
            budget_s=options.budget,
            show_progress=print_progress,
        )
    return _print_rows(rows, as_json=options.json)


def run_extract(options: argparse.Namespace) -> int:
    """Read the metrics of every recording from its report again."""
    rows = extract_metrics(options.measured, options.reports)
    return _print_rows(rows, as_json=options.json)


def run_score(options: argparse.Namespace) -> int:
    """Print how often the advice was right on the recorded pairs."""
    score = score_advice(options.measured, options.reports)
    return print_record(score, format_score_lines(score), as_json=options.json)


def run_reliability(options: argparse.Namespace) -> int:
    """Print how often the first cause was right, by confidence and by what was counted."""
    print_lines(describe_reliability(options.measured))
    return 0


def run_stop(options: argparse.Namespace) -> int:
    """Print how often a stop was wrong, and how often it was not told where it was due."""
    if not options.library:
        print_lines(format_stop_lines())
    print_lines(format_library_lines(options.library))
    return 0


def _print_rows(rows: Sequence[PairRecording], *, as_json: bool) -> int:
    lines = [f"{row.kernel}: {row.speedup:.2f}x, {row.report or 'no report'}" for row in rows]
    print_record(rows, lines, as_json=as_json)
    return int(not rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb. Exit 0 done, 1 nothing was recorded, 2 it could not run."""
    options = build_parser().parse_args(argv)
    try:
        return int(options.run(options))
    except KbError as error:
        sys.stderr.write(f"benchmarks.zoo: {error}\n")
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
