"""The command that makes a page of a report."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from kernelkb.cli.options import add_json_argument


def add_report_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb report``."""
    parser.add_argument("report", metavar="FILE", help="a report of Nsight Compute: .ncu-rep")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="PAGE",
        help="overwritten if it exists; default: the report's name with .html, in this folder",
    )
    parser.add_argument(
        "--kernel", metavar="REGEX", help="only kernels whose name matches this regular expression"
    )
    parser.add_argument("--gpu", metavar="NAME", help="the GPU, where the report names none")
    add_json_argument(parser)


def run_report(options: Namespace) -> int:
    """Write a report as one HTML page: causes, time, source and machine code of each kernel.

    The page needs no network and no script. It shows the 20 kernels that take the most time.

    kb report profile.ncu-rep -o profile.html
    kb report profile.ncu-rep --kernel gemm
    """
    from kernelkb.actions.advice.report_page import write_report_page
    from kernelkb.cli.output import print_record, show_activity

    page = options.output or Path(f"{Path(options.report).name.removesuffix('.ncu-rep')}.html")
    with show_activity(f"report {Path(options.report).name}"):
        done = write_report_page(
            options.report, page, kernel_pattern=options.kernel, gpu=options.gpu
        )
    count = f"{done.kernels} kernel{'s' if done.kernels != 1 else ''}"
    record = {"page": str(page), "kernels": done.kernels, "bytes": done.bytes}
    return print_record(record, [f"{page}: {count}, {done.bytes:,} bytes"], as_json=options.json)
