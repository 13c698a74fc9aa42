"""Commands over what was recorded: measurements, attempts, their comparison, export and import."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernelkb.cli.options import add_filter_arguments, parse_positive_int
from kernelkb.cli.output import print_json, print_lines, print_record
from kernelkb.errors import BadValueError
from kernelkb.render.text.attempts import (
    build_difference_object,
    build_log_object,
    build_measured_object,
    build_restored_object,
    format_attempt_difference,
    format_attempt_log,
    format_measured_difference,
    format_restored,
)
from kernelkb.render.text.comparisons import format_report_comparison
from kernelkb.safety.paths import read_kernel_name

if TYPE_CHECKING:
    from kernelkb.actions.project.profile_reports import ReportChoice
    from kernelkb.model.records.history import Measurement


def add_history_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab history``."""
    parser.add_argument("kernel", type=read_kernel_name, help="the kernel's name")
    parser.add_argument("--variant", metavar="ID", help="only this one")
    add_filter_arguments(parser)
    parser.add_argument(
        "--limit", type=parse_positive_int, default=20, metavar="N", help="default 20"
    )


def run_history(options: Namespace) -> int:
    """Print what was measured of a kernel, newest first.

    kb lab history row_softmax --variant vectorized --workload medium
    """
    from kernelkb.actions.history.measurements import list_measurements
    from kernelkb.render.text.measurements import format_history_lines

    measurements = list_measurements(
        options.kernel, options.variant, options.workload, options.device, options.limit
    )
    return _print_measurements(measurements, format_history_lines(measurements), options)


def _print_measurements(
    measurements: Sequence[Measurement], lines: Iterable[str], options: Namespace
) -> int:
    plain = [one.model_dump(mode="json", exclude={"samples"}) for one in measurements]
    return print_record(plain, lines, as_json=options.json)


def add_best_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab best``."""
    parser.add_argument(
        "kernel", nargs="?", type=read_kernel_name, help="only this one; default: all"
    )
    add_filter_arguments(parser)


def run_best(options: Namespace) -> int:
    """Print the fastest valid measurement of each kernel, workload and device.

    kb lab best row_softmax
    """
    from kernelkb.actions.history.measurements import find_best_measurements
    from kernelkb.render.text.measurements import format_best_lines

    measurements = find_best_measurements(options.kernel, options.workload, options.device)
    return _print_measurements(measurements, format_best_lines(measurements), options)


def add_compare_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb compare``."""
    selector = (
        "an id or its beginning, a variant (its newest bench), best, a trace, or a report: FILE, "
        "FILE#LAUNCH, FILE#2-5"
    )
    parser.add_argument("a", metavar="A", help=selector)
    parser.add_argument("b", metavar="B", help="the same; a ratio above 1 means that B is faster")
    parser.add_argument(
        "--kernel",
        type=read_kernel_name,
        metavar="NAME",
        help="the kernel that named variants belong to; of reports a regular expression",
    )
    add_filter_arguments(parser)


def run_compare(options: Namespace) -> int:
    """Print the ratio of two measurements with its interval, or how to get one; what differs.

    Of two reports of Nsight Compute, or two traces of a program, print what changed: the whole,
    then each kernel. Exits 1 when there is no ratio.

    kb compare 1f3a9c 77d0e2
    kb compare naive vectorized --kernel row_softmax --workload medium
    kb compare best 77d0e2
    kb compare before.ncu-rep after.ncu-rep --kernel gemm
    kb compare all.ncu-rep#0-3 all.ncu-rep#4-7
    """
    from kernelkb.actions.project.profile_reports import choose_reports

    if reports := choose_reports(options.a, options.b):
        return _compare_reports(*reports, options)
    from kernelkb.actions.comparison.compare_reports import compare_measured
    from kernelkb.actions.history.measurements import select_and_compare
    from kernelkb.render.text import measurements as text

    selection = select_and_compare(
        options.a, options.b, options.kernel, options.workload, options.device
    )
    comparison = selection.comparison
    difference = compare_measured(selection.a, selection.b)
    if options.json:
        told = build_measured_object(difference)
        print_json({**comparison.model_dump(mode="json"), "difference": told})
    else:
        print_lines(
            [
                text.describe_choice("a", selection.selected_by[0], selection.a),
                text.describe_choice("b", selection.selected_by[1], selection.b),
                text.describe_comparison(comparison),
                *text.describe_compared_use(comparison),
                *([f"  $ {comparison.command}"] if comparison.command else []),
                *format_measured_difference(difference),
            ]
        )
    return int(comparison.ratio is None)


def _compare_reports(before: ReportChoice, now: ReportChoice, options: Namespace) -> int:
    """Print what changed from one report to the other.

    Raises:
        BadValueError: Options that narrow measurements.
    """
    from kernelkb.actions.comparison.compare_reports import compare_reports

    if options.workload or options.device:
        raise BadValueError("--workload and --device narrow measurements; of reports, use --kernel")
    found = compare_reports(before, now, options.kernel)
    print_record(found, format_report_comparison(found), as_json=options.json)
    return int(found["call"]["ratio"] is None)


def add_regress_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab regress``."""
    parser.add_argument(
        "kernel", nargs="?", type=read_kernel_name, help="only this one; default: all"
    )
    add_filter_arguments(parser)
    parser.add_argument(
        "--fail-under",
        type=_parse_ratio,
        default=0.97,
        metavar="X",
        help="default 0.97: a loss of 3 %% is tolerated",
    )
    parser.add_argument(
        "--renew",
        action="store_true",
        help="promote again where judge, torch or baseline changed too much to compare",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="also list unchanged ones, with the reason"
    )


def run_regress(options: Namespace) -> int:
    """Compare the newest benches with the promoted ones; promote confirmed improvements.

    A regression is an interval entirely below --fail-under, or outputs that are now incorrect.
    Exits 1 when something regressed.

    kb lab regress
    kb lab regress row_softmax --fail-under 0.95 --verbose
    """
    from kernelkb.actions.history.measurements import check_project_regressions
    from kernelkb.render.text.measurements import format_regression_lines

    results = check_project_regressions(
        options.kernel,
        options.workload,
        options.device,
        options.fail_under,
        renew=options.renew,
    )
    lines = format_regression_lines(results, verbose=options.verbose)
    print_record(results, lines, as_json=options.json)
    return int(any(result.verdict == "regressed" for result in results))


def _parse_ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ArgumentTypeError(f"{text!r} is no ratio above 0 and up to 1, such as 0.97")
    return value


def add_export_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab export``."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        default="-",
        help="overwritten if it exists; - is standard output, the default",
    )
    parser.add_argument(
        "--no-sources", action="store_true", help="leave the source files of attempts out"
    )


def run_export(options: Namespace) -> int:
    """Write all measurements and attempts to a file of JSON Lines, which loses nothing.

    kb lab export measurements.jsonl
    kb lab export | gzip > measurements.jsonl.gz
    """
    from kernelkb.actions.history.measurements import export_to_file, stream_export

    with_sources = not options.no_sources
    if options.file != "-":
        total = export_to_file(Path(options.file), with_sources=with_sources)
        line = f"{total} measurements in {options.file}"
        return print_record({"total": total}, [line], as_json=options.json)
    if options.json:
        raise BadValueError("--json says how much was exported; name a FILE for the export itself")
    print_lines(piece.removesuffix("\n") for piece in stream_export(with_sources=with_sources))
    return 0


def add_import_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab import``."""
    parser.add_argument("file", type=Path, metavar="FILE", help="JSON Lines of kb lab export")


def run_import(options: Namespace) -> int:
    """Add the measurements of a file of kb lab export. Known measurements are not added twice.

    kb lab import measurements.jsonl
    """
    from kernelkb.actions.history.measurements import import_file

    counts = import_file(options.file)
    lines = [f"{counts.total} measurements in {options.file}, {counts.new} of them new"]
    record = {"total": counts.total, "new": counts.new}
    return print_record(record, lines, as_json=options.json)


def add_log_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb log``."""
    parser.add_argument("kernel", type=read_kernel_name, help="the kernel's name")
    parser.add_argument(
        "--limit", type=parse_positive_int, default=50, metavar="N", help="newest; default 50"
    )


def run_log(options: Namespace) -> int:
    """Print every state of a kernel that was built, as a tree, and what each change gave.

    The best path is marked (*); a change without gain has its reason.

    kb log row_softmax
    """
    from kernelkb.actions.history.attempts import load_attempt_log

    log = load_attempt_log(options.kernel, options.limit)
    return print_record(
        build_log_object(log) if options.json else log,
        format_attempt_log(log),
        as_json=options.json,
    )


def add_diff_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab diff``."""
    parser.add_argument("a", metavar="BEFORE", help="id of an attempt; kb log lists them")
    parser.add_argument("b", metavar="AFTER", help="id of another")


def run_diff(options: Namespace) -> int:
    """Print what differs between two attempts: time, machine code, metrics, source.

    kb lab diff 3f2a91c0 77ab02de
    """
    from kernelkb.actions.comparison.compare_reports import compare_attempts

    found = compare_attempts(options.a, options.b)
    return print_record(
        build_difference_object(found) if options.json else found,
        format_attempt_difference(found),
        as_json=options.json,
    )


def add_restore_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab restore``."""
    parser.add_argument("id", nargs="?", help="of an attempt; kb log lists them")
    parser.add_argument(
        "--best",
        metavar="KERNEL",
        type=read_kernel_name,
        help="the fastest attempt at this kernel",
    )


def run_restore(options: Namespace) -> int:
    """Write a state of a variant back, byte for byte, after keeping what is there now.

    kb lab restore 3f2a91c0
    kb lab restore --best row_softmax
    """
    from kernelkb.actions.history.attempts import restore_attempt

    if (options.id is None) == (options.best is None):
        raise BadValueError("name one: kb lab restore ID, or kb lab restore --best KERNEL")
    restored = restore_attempt(options.id, options.best)
    return print_record(
        build_restored_object(restored) if options.json else restored,
        format_restored(restored),
        as_json=options.json,
    )
