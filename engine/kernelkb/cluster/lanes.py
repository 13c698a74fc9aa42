"""The lanes of a host: one timed lane for each GPU, and what compiles; as resources of Dask.

``kb lab worker`` serves those of its host to a scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from kernelkb.cluster.choice import build_security
from kernelkb.measure.machine.host import core_count, cpu_title
from kernelkb.measure.machine.nvidia_driver import NvidiaGpu, query_driver

if TYPE_CHECKING:
    from distributed import Nanny
    from distributed.security import Security

TIMED = "GPU"
"""The resource that a timed lane has one of; also the lane of a host without a GPU."""
COMPILE = "CPU"
"""The resource that a compile worker has one of for each core."""
_MODEL, _CAPABILITY = "model=", "cc="


class Lane(NamedTuple):
    """A worker process that runs one timed task at a time, on one GPU."""

    host: str
    uuid: str
    """As NVML writes it, ``GPU-...``; ``CPU-<host>`` where the host has no GPU."""
    model: str
    """Such as ``NVIDIA H100 80GB HBM3``."""
    compute_capability: str
    """Such as ``9.0``; empty without a GPU."""
    worker: str
    """The name of its Dask worker: the host, a slash, the UUID."""

    @property
    def resources(self) -> dict[str, float]:
        """What its Dask worker offers; a task asks for the lane, or its model, by these."""
        facts = (TIMED, self.uuid, _MODEL + self.model, _CAPABILITY + self.compute_capability)
        return dict.fromkeys(facts, 1.0)

    @property
    def environment(self) -> dict[str, str]:
        """What its process sees of the host's GPUs: its own only."""
        return {"CUDA_VISIBLE_DEVICES": self.uuid} if self.compute_capability else {}


def ask_for_lane(where: str | None) -> dict[str, float]:
    """Return the resources that a timed task needs.

    Args:
        where: The UUID of a lane, the model of a GPU, or None for any lane.
    """
    if where is None:
        return {TIMED: 1}
    is_uuid = where.startswith(("GPU-", "MIG-", "CPU-", "PRETEND-"))
    return {TIMED: 1, (where if is_uuid else _MODEL + where): 1}


def read_lane(name: str, resources: Mapping[str, float]) -> Lane | None:
    """Return the lane of a Dask worker; None where it is not a timed one."""
    if TIMED not in resources:
        return None
    facts = list(resources)
    host, _, uuid = name.partition("/")
    return Lane(
        host,
        uuid,
        next((one.removeprefix(_MODEL) for one in facts if one.startswith(_MODEL)), ""),
        next((one.removeprefix(_CAPABILITY) for one in facts if one.startswith(_CAPABILITY)), ""),
        name,
    )


def list_lanes(workers: Iterable[Mapping[str, Any]]) -> tuple[Lane, ...]:
    """Return the timed lanes among the workers that a scheduler describes, sorted."""
    found = (read_lane(str(one["name"]), one["resources"]) for one in workers)
    return tuple(sorted(lane for lane in found if lane is not None))


def find_local_lanes(pretend_count: int = 0) -> tuple[Lane, ...]:
    """Return the timed lanes of this host: its GPUs, else the CPU as one.

    Args:
        pretend_count: This many lanes that are no GPUs, for tests and benchmarks.
    """
    host = socket.gethostname()
    if pretend_count:
        host += f"-{os.getpid()}"  # several pretend hosts may be one machine
        names = [f"PRETEND-{os.getpid()}-{number}" for number in range(pretend_count)]
        return tuple(Lane(host, one, "pretend", "", f"{host}/{one}") for one in names)
    driver = query_driver()
    gpus = _select_visible(driver.gpus if driver else (), os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not gpus:
        uuid = f"CPU-{host}"
        return (Lane(host, uuid, cpu_title(), "", f"{host}/{uuid}"),)
    return tuple(Lane(host, gpu.uuid, gpu.name, gpu.cc, f"{host}/{gpu.uuid}") for gpu in gpus)


def _select_visible(gpus: tuple[NvidiaGpu, ...], visible: str | None) -> tuple[NvidiaGpu, ...]:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` leaves, by index or by start of the UUID."""
    if visible is None:
        return gpus
    wanted = [part.strip() for part in visible.split(",") if part.strip()]
    return tuple(
        gpu
        for gpu in gpus
        if any(
            str(gpu.device_index) == one or (one.startswith("GPU-") and gpu.uuid.startswith(one))
            for one in wanted
        )
    )


_CLOSE_S = 3
_MOST_BUILDS = 8
"""Of one process."""
_RETRY_S = 1.0
_START_LIMIT = "120 s"
"""Longest start of a worker process; one that cannot join ends instead of waiting."""


@contextlib.contextmanager
def dask_settings() -> Iterator[None]:
    """Set what every process of ours needs from Dask; its worker processes inherit it."""
    import dask
    import distributed  # noqa: F401 its defaults have to be there, or leaving the block drops them

    with dask.config.set(
        {
            # A task that killed its worker would be run again, and kill the next one.
            "distributed.scheduler.allowed-failures": 0,
            # Nothing is served over HTTP, which has no TLS here.
            "distributed.scheduler.http.routes": [],
            "distributed.worker.http.routes": [],
            # Memory belongs to the judges, which are other processes; a limit kills a busy worker.
            "distributed.worker.memory.target": False,
            "distributed.worker.memory.spill": False,
            "distributed.worker.memory.pause": False,
            "distributed.worker.memory.terminate": False,
            # Of no use here, and it samples every thread every 10 ms.
            "distributed.worker.profile.enabled": False,
        }
    ):
        yield


async def serve_once(
    address: str,
    security: Security,
    lanes: Sequence[Lane],
    listen: str | None,
    stopped: asyncio.Event,
    announce: Callable[[], None],
) -> None:
    """Serve the lanes and a compile worker until ``stopped``, or until the scheduler is gone.

    Args:
        address: Of the scheduler.
        security: The certificates.
        lanes: The timed lanes of this host.
        listen: The address to listen on; None: the one that the scheduler's host is reached from,
            which is 127.0.0.1 for a scheduler on this host.
        stopped: Ends it.
        announce: Called once when every worker has joined.

    Raises:
        OSError: The scheduler cannot be reached.
    """
    nannies = [*(_make_nanny(address, security, listen, one) for one in lanes)]
    for number, cores in enumerate(split_cores(core_count())):
        name = f"{lanes[0].host}/compile-{number}"
        nannies.append(_start_nanny(address, security, listen, name, cores, {COMPILE: cores}, {}))
    try:
        await asyncio.gather(*nannies)
        announce()
        ends = [asyncio.ensure_future(one.finished()) for one in nannies]
        ends.append(asyncio.ensure_future(stopped.wait()))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
    finally:
        closing = (one.close(timeout=_CLOSE_S) for one in nannies)
        await asyncio.gather(*closing, return_exceptions=True)


async def serve_until_stopped(
    address: str,
    security: Security,
    lanes: Sequence[Lane],
    listen: str | None,
    stopped: asyncio.Event,
    report: Callable[[str], None],
) -> None:
    """Serve the lanes until ``stopped``; wait for a scheduler that is not there, or not any more.

    Args:
        address: Of the scheduler.
        security: The certificates.
        lanes: The timed lanes of this host.
        listen: As for ``serve_once``.
        stopped: Ends it.
        report: Called with one line at each change.
    """
    told = False
    while not stopped.is_set():
        if await _can_reach(address, security):
            told = False
            await serve_once(
                address, security, lanes, listen, stopped, lambda: report(f"serving {address}")
            )
        elif not told:
            told = True
            report(f"waiting for the scheduler at {address}")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), _RETRY_S)


async def serve_order(order: Mapping[str, Any], orders: TextIO, answers: TextIO) -> None:
    """Serve the lanes until ``orders`` ends or the scheduler is gone; answer once they joined.

    Args:
        order: ``address`` of the scheduler; ``certificate`` and ``key``, PEM, for both sides; and
            ``pretend_count``.
        orders: Where the order came from; its end is the end of the client.
        answers: Gets one line, ``ready``.
    """
    stopped = watch_signals()
    loop = asyncio.get_running_loop()
    loop.add_reader(orders, stopped.set)  # nothing follows the order, so this is its end
    certificate, key = str(order["certificate"]), str(order["key"])
    security = build_security(certificate, certificate, key)
    lanes = find_local_lanes(int(order["pretend_count"]))

    def announce() -> None:
        answers.write("ready\n")
        answers.flush()

    await serve_once(str(order["address"]), security, lanes, None, stopped, announce)


def watch_signals() -> asyncio.Event:
    """Return an event that Ctrl-C and SIGTERM set."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped


async def _can_reach(address: str, security: Security) -> bool:
    from distributed import rpc

    remote: Any = rpc(address, connection_args=security.get_connection_args("worker"), timeout=5)
    try:
        await asyncio.wait_for(remote.identity(n_workers=0), 10)
    except OSError:  # refused, or closed in the handshake; TimeoutError is one
        return False
    finally:
        await remote.close_rpc()
    return True


def _make_nanny(address: str, security: Security, listen: str | None, lane: Lane) -> Nanny:
    return _start_nanny(address, security, listen, lane.worker, 1, lane.resources, lane.environment)


def split_cores(cores: int) -> list[int]:
    """Return the builds at once of each compile worker: a core each, and one core for the lanes.

    What Python does for a build takes 0.12 s, one thread at a time: a single process would stay at
    about 6 builds a second, however many cores there are.

    Args:
        cores: Of the host.
    """
    building = max(1, cores - 1)
    count = -(-building // _MOST_BUILDS)
    return [building // count + (number < building % count) for number in range(count)]


def _start_nanny(
    address: str,
    security: Security,
    listen: str | None,
    name: str,
    nthreads: int,
    resources: dict[str, float],
    environment: dict[str, str],
) -> Nanny:
    from distributed import Nanny
    from distributed.comm.addressing import get_address_host
    from distributed.utils import get_ip

    scheme = address.partition("://")[0]
    return Nanny(
        address,
        name=name,
        nthreads=nthreads,
        resources=resources,
        env=environment,
        host=listen or get_ip(get_address_host(address)),
        protocol=scheme,
        security=security,
        memory_limit=0,
        death_timeout=_START_LIMIT,
        dashboard=False,
        dashboard_address="127.0.0.1:0",
    )
