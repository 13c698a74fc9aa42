"""The command that serves the GPUs of this host to a scheduler."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from kernelkb.cli.options import parse_positive_int
from kernelkb.cli.workers_options import add_tls_arguments, read_tls_files
from kernelkb.errors import BadValueError

if TYPE_CHECKING:
    from kernelkb.cluster.lanes import Lane

_ORDER_FIELDS = {"address", "certificate", "key", "pretend_count"}


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
    from kernelkb.cluster.choice import require_packages

    require_packages()
    return _serve_order() if options.address == "-" else _serve_address(options)


def _serve_address(options: Namespace) -> int:
    import asyncio

    from kernelkb.cli.output import print_lines
    from kernelkb.cluster.choice import check_address, load_security
    from kernelkb.cluster.host import dask_settings, serve_until_stopped, watch_signals
    from kernelkb.cluster.lanes import find_local_lanes
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
    import sys

    from kernelkb.cluster.host import dask_settings, serve_order

    order = _parse_order(sys.stdin.readline())
    with dask_settings():
        asyncio.run(serve_order(order, sys.stdin, sys.stdout))
    return 0


def _parse_order(line: str) -> dict[str, Any]:
    """Return the order that a client sends.

    Raises:
        BadValueError: It is none: the command was typed, or another program wrote.
    """
    import json

    try:
        order = json.loads(line)
    except ValueError:
        order = None
    if not isinstance(order, dict) or not order.keys() >= _ORDER_FIELDS:
        raise BadValueError(
            "standard input holds no order; `kb lab worker -` is started by --workers ssh:, and "
            "kb lab worker tls://HOST:PORT serves a scheduler"
        )
    return order
