"""Check a variant and time it against the fastest of what could be run instead.

kb bench row_softmax --variant vectorized --target cpu --workload medium
kb bench --task 23_Softmax.py --candidate mine.py
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_kernel_arguments, parse_seconds
from kernelkb.errors import BadValueError
from kernelkb.model.measurement import Bench


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    add_kernel_arguments(parser, optional=True)
    parser.add_argument(
        "--timeout", type=parse_seconds, metavar="S", help="default 120, for a task 600"
    )
    parser.add_argument(
        "--budget", type=parse_seconds, default=3.0, metavar="S", help="of taking times; default 3"
    )
    parser.add_argument(
        "--against", metavar="VARIANT", help="another variant to compare with, besides torch"
    )
    parser.add_argument(
        "--sanitize", action="store_true", help="let compute-sanitizer look too, which takes longer"
    )
    parser.add_argument(
        "--task", metavar="FILE", help="a task of KernelBench, or a FlashInfer-Bench definition"
    )
    parser.add_argument("--candidate", metavar="FILE", help="its ModelNew, or a solution")
    parser.add_argument("--workloads", metavar="FILE", help="of a definition; JSON Lines")


def run(options: Namespace) -> int:
    """Print the result; return 1 when the variant is wrong or could not be timed."""
    from kernelkb.cli.output import interruptible_measurement, print_json, print_lines
    from kernelkb.render.measurements import format_bench_lines

    if bool(options.kernel) == bool(options.task) or bool(options.task) != bool(options.candidate):
        raise BadValueError("name a kernel, or give --task FILE and --candidate FILE")
    _refuse_ignored(options)
    with interruptible_measurement():
        timed = _bench_task(options) if options.task else _bench_kernel(options)
    if options.json:
        print_json(timed)
    else:
        print_lines(format_bench_lines(timed))
    return int(timed.verdict in ("incorrect", "invalid"))


def _refuse_ignored(options: Namespace) -> None:
    """Refuse what would be given without effect.

    Raises:
        BadValueError: It was.
    """
    if options.kernel and options.workloads:
        raise BadValueError("--workloads is for --task; leave it out")
    for name in ("variant", "against", "sanitize"):
        if options.task and getattr(options, name):
            raise BadValueError(f"--{name} is for a kernel, not for --task; leave it out")


def _bench_kernel(options: Namespace) -> Bench:
    from kernelkb.actions.kernels import bench_variant

    return bench_variant(
        options.kernel,
        options.variant,
        options.target,
        options.workload,
        options.timeout or 120.0,
        options.budget,
        options.sanitize,
        options.against,
    )


def _bench_task(options: Namespace) -> Bench:
    from kernelkb.actions.foreign_tasks import bench_task

    return bench_task(
        options.task,
        options.candidate,
        options.target,
        options.workload,
        workloads=options.workloads,
        timeout_s=options.timeout or 600.0,
        budget_s=options.budget,
    )
