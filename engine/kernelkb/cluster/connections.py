"""Connects a client: to a cluster that it starts, here or by ssh, or to a scheduler that runs."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

from kernelkb.cluster.choice import WorkersChoice, is_loopback
from kernelkb.cluster.tasks import SchedulerLostError
from kernelkb.errors import BadValueError, KbError

if TYPE_CHECKING:
    from distributed import Client, SpecCluster
    from distributed.security import Security

    from kernelkb.cluster.host_process import HostProcess

_RETRY_S = 0.5


class Connection(Protocol):
    """A way to a scheduler; ``open`` serves again after the scheduler died."""

    client: Client

    def open(self, limit_s: float) -> None:
        """Connect, for the first time or anew.

        Raises:
            KbError: It did not come about within the limit.
        """

    def close(self) -> None:
        """Close what ``open`` opened; never raises."""


class StartedCluster:
    """A scheduler in this process, and ``kb lab worker`` on each host; all end with this process.

    The scheduler cannot die alone, and needs no port to be agreed on.
    """

    client: Client

    def __init__(self, choice: WorkersChoice, listen: str | None, pretend_count: int) -> None:
        far = [host for host in choice.hosts if not is_loopback(host)]
        if far and listen is None:
            raise BadValueError(
                f"{far[0]} has to reach this host; name the address to listen on: --listen ADDRESS"
            )
        self._choice, self._listen = choice, listen or "127.0.0.1"
        self._pretend_count = pretend_count
        self._cluster: SpecCluster | None = None
        self._hosts: list[HostProcess] = []

    def open(self, limit_s: float) -> None:  # noqa: ARG002 each host has its own limit
        """Start the scheduler and the workers.

        Raises:
            BadValueError: This host has no such address to listen on.
            KbError: A host has no workers.
        """
        from distributed import Client, Scheduler, SpecCluster
        from distributed.security import Security

        self.close()
        security = Security.temporary()  # in memory only
        options = {
            "host": self._listen,
            "protocol": "tls://",
            "security": security,
            "dashboard": False,
            "dashboard_address": "127.0.0.1:0",
        }
        try:
            self._cluster = SpecCluster(  # without hosts: its constructor could not be interrupted
                workers={},
                scheduler={"cls": Scheduler, "options": options},
                security=security,
                silence_logs=logging.CRITICAL,
            )
        except RuntimeError as error:  # it wraps what the system said about the address
            raise BadValueError(
                f"no scheduler starts on {self._listen}; name an address of this host: "
                "--listen ADDRESS"
            ) from error
        self._start_hosts(self._cluster, security)
        self.client = Client(self._cluster, set_as_default=False)

    def _start_hosts(self, cluster: SpecCluster, security: Security) -> None:
        """Start the workers of all hosts, or of none: also an interrupt ends those that started."""
        self._hosts = []
        cluster.worker_spec.update(self._list_hosts(security))
        try:
            cluster.sync(cluster._correct_state)
        except BaseException:
            for host in self._hosts:
                host.kill()
            with contextlib.suppress(Exception):  # Dask closes those that it knows already
                cluster.sync(self._close_hosts)
            raise

    async def _close_hosts(self) -> None:
        for host in self._hosts:
            await host.close()

    def _list_hosts(self, security: Security) -> dict[str, Any]:
        from kernelkb.cluster.host_process import HostProcess, build_command

        order = {
            "certificate": security.tls_worker_cert,
            "key": security.tls_worker_key,
            "pretend_count": self._pretend_count,
        }
        hosts = self._choice.hosts or (None,)
        return {
            host or "this host": {
                "cls": HostProcess,
                "options": {
                    "order": order,
                    "command": build_command(host, self._choice.port),
                    "begun": self._hosts,
                },
            }
            for host in hosts
        }

    def close(self) -> None:
        """End workers and scheduler."""
        from distributed import Status

        _close_client(getattr(self, "client", None))
        if self._cluster is not None:
            if self._cluster.scheduler.status != Status.running:
                self._cluster.shutdown_scheduler = False  # Dask would try to reach it for 30 s
            with contextlib.suppress(Exception):  # it may be half open
                self._cluster.close(timeout=20)
            self._cluster = None


class JoinedScheduler:
    """A scheduler that was started by hand."""

    client: Client

    def __init__(self, address: str, security: Security) -> None:
        self._address, self._security = address, security

    def open(self, limit_s: float) -> None:
        """Connect; try again until the limit.

        Raises:
            SchedulerLostError: It was not reached.
        """
        from distributed import Client

        deadline = time.monotonic() + limit_s
        _close_client(getattr(self, "client", None))
        while True:
            left = max(0.2, min(5.0, deadline - time.monotonic()))
            try:
                self.client = Client(
                    self._address, security=self._security, timeout=left, set_as_default=False
                )
            except OSError as error:  # TimeoutError is one
                if time.monotonic() > deadline:
                    raise SchedulerLostError(
                        f"no scheduler answers at {self._address} within {limit_s:.0f} s "
                        f"({error}); start it with `dask scheduler`, and look at its certificates"
                    ) from error
                time.sleep(_RETRY_S)
            else:
                return self._forbid_reruns()

    def _forbid_reruns(self) -> None:
        """Set the scheduler's ``allowed-failures`` to 0."""

        def forbid(dask_scheduler: Any) -> None:  # nested, so that it travels as code, not by name
            dask_scheduler.allowed_failures = 0

        try:
            self.client.run_on_scheduler(forbid)
        except Exception as error:
            raise KbError(
                "the scheduler does not let us set allowed-failures; start it with "
                "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=0"
            ) from error

    def close(self) -> None:
        """Leave the scheduler as it is."""
        _close_client(getattr(self, "client", None))


def _close_client(client: Client | None) -> None:
    if client is not None:
        with contextlib.suppress(Exception):  # its scheduler may be gone
            client.close(timeout=5)
