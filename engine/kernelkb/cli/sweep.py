"""The command that judges many kernels on all GPUs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kernelkb.cli.options import add_json_argument, parse_seconds
from kernelkb.cli.workers_options import add_workers_arguments, open_workers
from kernelkb.errors import BadValueError, KbError

if TYPE_CHECKING:
    from kernelkb.actions.sweep.sweep import SweepRun
    from kernelkb.actions.sweep.sweep_plan import SweepRequest
    from kernelkb.model.records.measurement import Sweep


def add_sweep_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab sweep``."""
    parser.add_argument(
        "kernels",
        nargs="*",
        metavar="KERNEL",
        help="default: all of the project; kb show kernels lists them",
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="the kernels below this folder instead"
    )
    parser.add_argument(
        "--tasks", type=Path, metavar="DIR", help="the KernelBench problems in this folder instead"
    )
    parser.add_argument(
        "--candidates",
        type=Path,
        metavar="DIR",
        help="candidates of the tasks: files of the same name, or as KernelBench names them, "
        "level_1_problem_23_sample_0_kernel.py",
    )
    _add_judge_arguments(parser)
    add_workers_arguments(parser)
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the result as JSON")
    add_json_argument(parser)


def _add_judge_arguments(parser: ArgumentParser) -> None:
    """Add what is judged of each kernel, and how."""
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="build and check; time nothing")
    mode.add_argument("--bench", action="store_true", help="build, check and time; the default")
    parser.add_argument(
        "--variant", metavar="ID", help="or all; default: the plain one of each kernel"
    )
    parser.add_argument("--workload", metavar="NAME", help="default: the target's default")
    parser.add_argument(
        "--target",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto takes CUDA where a worker has a GPU and the kernel a CUDA variant",
    )
    parser.add_argument(
        "--timeout", type=parse_seconds, metavar="S", help="default 120, for a task 600"
    )
    parser.add_argument(
        "--budget", type=parse_seconds, metavar="S", help="seconds of timing for each; default 3"
    )


def run_sweep(options: Namespace) -> int:
    """Check and time many kernels, each on one GPU, on all GPUs at once.

    Each result is recorded as by kb bench. Exits 1 when one is incorrect, invalid or not run.

    kb lab sweep
    kb lab sweep gemm row_softmax --variant all --workers ssh:node1,node2 --listen 10.0.0.1
    kb lab sweep --folder kernels/zoo/low-ilp --check
    kb lab sweep --tasks KernelBench/level1 --candidates runs/mine --export level1.json
    """
    from kernelkb.cli.output import print_record
    from kernelkb.render.text.measurements import format_sweep

    request = _make_request(options)
    _require_folder(options.export)
    sweep = _judge(options, request)
    lines = [] if options.json else ["", *format_sweep(sweep)]
    print_record(sweep, lines, as_json=options.json)
    return int(any(row.has_failed for row in sweep.rows))


def _make_request(options: Namespace) -> SweepRequest:
    from kernelkb.actions.sweep.sweep_plan import SweepRequest

    chosen = [bool(options.kernels), options.folder is not None, options.tasks is not None]
    if sum(chosen) > 1:
        raise BadValueError("name kernels, --folder or --tasks, and one of them only")
    if options.candidates is not None and options.tasks is None:
        raise BadValueError("--candidates belongs to --tasks")
    if options.tasks is not None and options.variant is not None:
        raise BadValueError("--variant is for kernels, not for --tasks; leave it out")
    return SweepRequest(
        tuple(options.kernels),
        options.folder,
        options.tasks,
        options.candidates,
        options.check,
        options.variant,
        options.target,
        options.workload,
        options.timeout,
        options.budget,
    )


def _require_folder(path: Path | None) -> None:
    if path is not None and not path.absolute().parent.is_dir():
        raise BadValueError(f"{path.parent} is no folder to write {path.name} to")


def _judge(options: Namespace, request: SweepRequest) -> Sweep:
    from kernelkb.actions.project.bench_target import get_project_path
    from kernelkb.actions.sweep.sweep import SweepRun
    from kernelkb.actions.sweep.sweep_plan import plan_sweep
    from kernelkb.cli.output import interruptible_measurement

    project = get_project_path()
    _refuse_early(request, project)
    stopped = "interrupted: the kernels above are judged and recorded"
    with (
        interruptible_measurement("sweep", interrupted=stopped),
        open_workers(options) as cluster,
    ):
        has_gpu = any(lane.compute_capability for lane in cluster.lanes)
        plan = plan_sweep(request, project, has_gpu=has_gpu)
        run = SweepRun(cluster, plan, project)
        try:
            _show_rows(options, run)
        finally:  # also what an interrupt leaves
            _export(options.export, run)
    return run.conclude()


def _refuse_early(request: SweepRequest, project: Path) -> None:
    """Raise what a plan raises before any worker starts: with GPUs there and without.

    Raises:
        KbError: As ``plan_sweep`` does.
    """
    from kernelkb.actions.sweep.sweep_plan import plan_sweep

    try:
        plan_sweep(request, project, has_gpu=True)
    except KbError:
        plan_sweep(request, project, has_gpu=False)


def _show_rows(options: Namespace, run: SweepRun) -> None:
    from kernelkb.render.text.measurements import format_row

    for row in run.judge_all():
        if not options.json:
            _print_now([format_row(row)])


def _print_now(lines: Iterable[str]) -> None:
    from kernelkb.cli.output import print_lines

    print_lines(lines)
    sys.stdout.flush()  # a pipe would hold the rows back for minutes


def _export(path: Path | None, run: SweepRun) -> None:
    if path is not None:
        path.write_text(run.conclude().model_dump_json(indent=2) + "\n", encoding="utf-8")
