"""Check a variant and time it against the reference, interleaved in one process.

kb bench row_softmax --variant vectorized --target cpu --workload medium
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from engine.cli.options import kernel_arguments, seconds


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    kernel_arguments(parser)
    parser.add_argument("--timeout", type=seconds, default=120.0, metavar="S", help="default 120")
    parser.add_argument(
        "--budget", type=seconds, default=3.0, metavar="S", help="of taking times; default 3"
    )
    parser.add_argument(
        "--sanitize", action="store_true", help="let compute-sanitizer look too, which takes longer"
    )


def run(options: Namespace) -> int:
    """Print the result; return 1 when the variant is wrong or could not be timed."""
    from engine.actions.kernels import bench
    from engine.cli.output import print_json, print_result
    from engine.render.measurements import bench_line

    timed = bench(
        options.kernel,
        options.variant,
        options.target,
        options.workload,
        options.timeout,
        options.budget,
        options.sanitize,
    )
    if options.json:
        print_json(timed)
    else:
        print_result(bench_line(timed), timed.cure)
    return int(timed.verdict in ("incorrect", "invalid"))
