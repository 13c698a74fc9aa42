"""Commands for many devices: ``kb lab sweep``, ``kb lab worker``, and where workers run."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelkb.cli.options import (
    add_target_argument,
    parse_positive_int,
    parse_seconds,
    parse_written_file,
)
from kernelkb.cli.output import interruptible_measurement, print_lines, print_record
from kernelkb.cluster.choice import (
    TlsFiles,
    check_address,
    load_security,
    parse_workers,
    require_packages,
)
from kernelkb.errors import BadValueError, KbError
from kernelkb.safety.untrusted_text import parse_json

if TYPE_CHECKING:
    from kernelkb.actions.sweep.sweep import SweepRun
    from kernelkb.actions.sweep.sweep_plan import SweepRequest
    from kernelkb.cluster.choice import TlsFiles
    from kernelkb.cluster.cluster import Cluster
    from kernelkb.cluster.lanes import Lane
    from kernelkb.model.records.measurement import Sweep

_ORDER_FIELDS = {"address", "certificate", "key", "pretend_count"}


def add_workers_arguments(parser: ArgumentParser) -> None:
    """Add where workers run, and how they are reached; see docs/workers.md."""
    parser.add_argument(
        "--workers",
        metavar="WHERE",
        help="auto: every GPU of this host; ssh:HOST,HOST; or a scheduler, tls://HOST:PORT",
    )
    parser.add_argument(
        "--listen", metavar="ADDRESS", help="with ssh: the address of this host for the others"
    )
    add_tls_arguments(parser)


def add_tls_arguments(parser: ArgumentParser) -> None:
    """Add the certificates."""
    for name, what in (
        ("ca-file", "who signed the others' certificates"),
        ("cert", "this host's certificate"),
        ("key", "the key of the certificate"),
    ):
        parser.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=f"PEM: {what}")


def read_tls_files(options: Namespace) -> TlsFiles:
    """Return the certificates that the options name."""
    return TlsFiles(options.tls_ca_file, options.tls_cert, options.tls_key)


def open_workers(options: Namespace) -> AbstractContextManager[Cluster]:
    """Start or join the workers that the options name; all GPUs of this host by default."""
    from kernelkb.cluster.cluster import open_cluster

    choice = parse_workers(options.workers or "auto")
    return open_cluster(choice, listen=options.listen, tls=read_tls_files(options))


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
    parser.add_argument(
        "--export", type=parse_written_file, metavar="FILE", help="write the result as JSON"
    )


def _add_judge_arguments(parser: ArgumentParser) -> None:
    """Add what is judged of each kernel, and how."""
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="build and check; time nothing")
    mode.add_argument("--bench", action="store_true", help="build, check and time; the default")
    parser.add_argument(
        "--variant", metavar="ID", help="or all; default: the plain one of each kernel"
    )
    parser.add_argument("--workload", metavar="NAME", help="default: the target's default")
    meaning = "auto takes CUDA where a worker has a GPU and the kernel a CUDA variant"
    add_target_argument(parser, meaning)
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
    print_lines(lines)
    sys.stdout.flush()  # a pipe would hold the rows back for minutes


def _export(path: Path | None, run: SweepRun) -> None:
    if path is not None:
        path.write_text(run.conclude().model_dump_json(indent=2) + "\n", encoding="utf-8")


def add_worker_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab worker``."""
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        help="of the scheduler, tls://HOST:PORT; or -: read the order from standard input, as "
        "--workers ssh: does",
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="of this host; default: the one that the scheduler's host is reached from",
    )
    add_tls_arguments(parser)
    parser.add_argument(
        "--pretend",
        type=parse_positive_int,
        default=0,
        metavar="N",
        help="N lanes without a GPU, to try it out",
    )


def run_worker(options: Namespace) -> int:
    """Serve the GPUs of this host, one worker for each, and its cores for compiling.

    Runs until Ctrl-C; waits for a scheduler that is not there. `dask scheduler` starts one.

    kb lab worker tls://node1:8786 --tls-ca-file kb.crt --tls-cert kb.crt --tls-key kb.key
    """
    require_packages()
    return _serve_order() if options.address == "-" else _serve_address(options)


def _serve_address(options: Namespace) -> int:
    import asyncio

    from kernelkb.cluster.lanes import (
        dask_settings,
        find_local_lanes,
        serve_until_stopped,
        watch_signals,
    )
    from kernelkb.measure.machine.host import core_count

    files = read_tls_files(options)
    address = check_address(options.address)
    security = load_security(address, files)
    lanes = find_local_lanes(options.pretend)
    print_lines([*map(_format_lane, lanes), f"{core_count()} cores for compiling"])

    async def serve() -> None:
        await serve_until_stopped(
            address,
            security,
            lanes,
            options.listen,
            watch_signals(),
            lambda line: print_lines([line]),
        )

    with dask_settings():
        asyncio.run(serve())
    return 0


def _format_lane(lane: Lane) -> str:
    return f"{lane.uuid}  {lane.model}"


def _serve_order() -> int:
    """Serve as the first line of standard input says, until the input ends."""
    import asyncio

    from kernelkb.cluster.lanes import dask_settings, serve_order

    order = _parse_order(sys.stdin.readline())
    with dask_settings():
        asyncio.run(serve_order(order, sys.stdin, sys.stdout))
    return 0


def _parse_order(line: str) -> dict[str, Any]:
    """Return the order that a client sends.

    Raises:
        BadValueError: It is none: the command was typed, or another program wrote.
    """
    try:
        order = parse_json(line)
    except ValueError:
        order = None
    if not isinstance(order, dict) or not order.keys() >= _ORDER_FIELDS:
        raise BadValueError(
            "standard input holds no order; `kb lab worker -` is started by --workers ssh:, and "
            "kb lab worker tls://HOST:PORT serves a scheduler"
        )
    return order
