"""Opens a cluster: the one entry point for commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kernelkb.cluster.choice import WorkersChoice, require_packages
from kernelkb.cluster.security import TlsFiles, load_security

if TYPE_CHECKING:
    from kernelkb.cluster.cluster import Cluster
    from kernelkb.cluster.connections import Connection


@contextmanager
def open_cluster(
    choice: WorkersChoice,
    *,
    pretend_count: int = 0,
    listen: str | None = None,
    tls: TlsFiles | None = None,
    return_s: float = 30.0,
    lanes_s: float = 60.0,
    scheduler_s: float = 60.0,
) -> Iterator[Cluster]:
    """Start or join the workers; end those that were started at the end of the block.

    Args:
        choice: Of ``parse_workers``.
        pretend_count: This many lanes for each host that are no GPUs, for tests and benchmarks.
        listen: The address of this host that other hosts reach, for ``ssh:``; else loopback only.
        tls: The certificates for a scheduler's address; by default Dask's configuration.
        return_s: Time for a worker that died to come back, before its task runs elsewhere, s.
        lanes_s: Time that a task waits while no worker can run it, s.
        scheduler_s: Time for a scheduler with an address to answer, s.

    Raises:
        EnvironmentGapError: Dask is not installed, or a host has no workers.
        BadValueError: Other hosts would have to reach this one, and ``listen`` is not given.
        SchedulerLostError: Nothing answers at the address.
    """
    require_packages()
    from kernelkb.cluster.cluster import Cluster
    from kernelkb.cluster.host import dask_settings

    with dask_settings():
        connection = _choose_connection(choice, pretend_count, listen, tls or TlsFiles())
        try:
            connection.open(scheduler_s)
            cluster = Cluster(
                connection, return_s=return_s, lanes_s=lanes_s, scheduler_s=scheduler_s
            )
            yield cluster
        finally:
            connection.close()


def _choose_connection(
    choice: WorkersChoice, pretend_count: int, listen: str | None, tls: TlsFiles
) -> Connection:
    from kernelkb.cluster.connections import JoinedScheduler, StartedCluster

    if choice.kind == "address":
        return JoinedScheduler(choice.address, load_security(choice.address, tls))
    return StartedCluster(choice, listen, pretend_count)
