"""Opens a cluster, submits builds and timed tasks to its lanes, and delivers each end once.

``open_cluster`` is the one entry point for commands. An end is delivered also where workers die.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from kernelkb.cluster.choice import (
    TlsFiles,
    WorkersChoice,
    is_loopback,
    load_security,
    require_packages,
)
from kernelkb.cluster.lanes import COMPILE, TIMED, Lane, ask_for_lane, list_lanes
from kernelkb.cluster.tasks import Deaths, LanesLostError, SchedulerLostError, Task
from kernelkb.errors import BadValueError, KbError

if TYPE_CHECKING:
    from distributed import Client, Future, SpecCluster
    from distributed.security import Security

    from kernelkb.cluster.host_process import HostProcess

_RETRY_S = 0.5

_POLL_S = 0.25
_LOOK_S = 1.0
_ANSWER_S = 5


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


@contextlib.contextmanager
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
    from kernelkb.cluster.lanes import dask_settings

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
    if choice.kind == "address":
        return JoinedScheduler(choice.address, load_security(choice.address, tls))
    return StartedCluster(choice, listen, pretend_count)


class Cluster:
    """The lanes, and the tasks on them. One thread of the caller uses it.

    Dask assigns and moves the tasks; ``wait`` also handles deaths, so the caller has to wait for
    anything to be submitted again.
    """

    def __init__(
        self, connection: Connection, *, return_s: float, lanes_s: float, scheduler_s: float
    ) -> None:
        self._connection, self._scheduler_s, self._lanes_s = connection, scheduler_s, lanes_s
        self._epoch = 0
        self._outstanding: set[Task] = set()
        self._signals: queue.SimpleQueue[tuple[Task, Future | None]] = queue.SimpleQueue()
        self._deaths = Deaths(return_s)
        self._served_at: dict[str, float] = {}
        self._looked_at = 0.0

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The timed lanes that are there now, sorted."""
        return list_lanes(self._list_workers())

    @property
    def build_slots(self) -> int:
        """How many builds run at once, on all hosts."""
        return sum(int(one["resources"].get(COMPILE, 0)) for one in self._list_workers())

    def submit_build(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        label: object = None,
        fetch: bool = False,
    ) -> Task:
        """Call a function on any host's compile worker; its result stays there.

        Args:
            function: Importable on the workers; it is called again if a worker dies.
            *arguments: Of the function; a ``Task`` stands for its result.
            label: Kept as ``Task.label``.
            fetch: Whether the result comes to the caller, too.
        """
        task = Task("build", None, function, arguments, label)
        task.fetches = fetch
        return self._submit(task)

    def submit_timed(
        self, lane: str | None, function: Callable[..., Any], *arguments: Any, label: object = None
    ) -> Task:
        """Call a function on a timed lane, which runs one at a time.

        Args:
            lane: The UUID of one, the model of a GPU, or None for any.
            function: Importable on the workers; what it returns comes to the caller.
            *arguments: Of the function; a ``Task`` stands for its result, which goes from worker
                to worker while the lane runs another task.
            label: Kept as ``Task.label``.
        """
        return self._submit(Task("timed", lane, function, arguments, label))

    def wait(self, timeout_s: float | None = None) -> list[Task]:
        """Return the tasks that have ended since the last call, at least one.

        An empty list: nothing is outstanding, or the timeout passed. A cancelled task is not
        returned. A task whose worker died while it ran, and came back, has a ``WorkerDiedError``;
        where a host or the scheduler dies, the task is submitted again.

        Raises:
            KbError: The scheduler is gone, and did not come back in time.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            ended = [*self._take_signals(), *self._review()]
            left = _POLL_S if deadline is None else min(_POLL_S, deadline - time.monotonic())
            if ended or not self._outstanding or left <= 0:
                return ended
            with contextlib.suppress(queue.Empty):
                self._signals.put(self._signals.get(timeout=left))

    def as_completed(self) -> Iterator[Task]:
        """Yield every task once as it ends, also those submitted meanwhile; see ``wait``."""
        while ended := self.wait():
            yield from ended

    def cancel(self, *tasks: Task) -> None:
        """Forget tasks that have not ended; one that runs is left to its end, and not returned."""
        for task in tasks or tuple(self._outstanding):
            if task not in self._outstanding:
                continue
            self._outstanding.discard(task)
            self._deaths.forget(task)
            task.cancelled = True
            if task.future is not None:
                task.future.cancel()
                task.future = None

    def close(self) -> None:
        """End the workers that were started for it; a scheduler with an address stays."""
        self.cancel()
        self._connection.close()

    def _submit(self, task: Task) -> Task:
        self._outstanding.add(task)
        self._send(task)
        return task

    def _send(self, task: Task) -> None:
        """Submit an attempt, after those that it needs and that are lost."""
        for needed in task.needs:
            lost = not needed.delivered and (needed.epoch != self._epoch or needed.future is None)
            if lost and needed.error is None and not needed.cancelled:
                self._outstanding.add(needed)
                self._send(needed)
        if any(one.error or one.cancelled for one in task.needs):
            task.future, task.epoch = None, self._epoch
            self._signals.put((task, None))  # ends it
            return
        task.submit(self._connection.client, self._epoch)
        if task.future is None:
            raise AssertionError("just submitted")
        task.future.add_done_callback(lambda future: self._signals.put((task, future)))

    def _take_signals(self) -> Iterator[Task]:
        """Settle every attempt that is over; results are fetched together."""
        over: list[Task] = []
        with contextlib.suppress(queue.Empty):
            while True:
                task, future = self._signals.get_nowait()
                if task in self._outstanding and task.future is future:
                    over.append(task)
        wanted = [one for one in over if one.fetches and _has_finished(one)]
        fetched: dict[Task, Any] = {}
        if wanted:
            with contextlib.suppress(Exception):  # one by one below, which tells whose it is
                values = self._connection.client.gather([one.future for one in wanted])
                fetched = dict(zip(wanted, values, strict=True))
        for task in over:
            if task in fetched:
                task.value = fetched[task]
                yield from self._end(task)
            elif task in self._outstanding and task.epoch == self._epoch:
                yield from self._settle(task)

    def _settle(self, task: Task) -> Iterator[Task]:
        """Look at an attempt that is over."""
        from distributed import CancelledError
        from distributed.scheduler import KilledWorker

        broken = next((one for one in task.needs if one.error or one.cancelled), None)
        if broken or task.future is None:
            task.error = (broken.error if broken else None) or RuntimeError("a build was cancelled")
            yield from self._end(task)
            return
        try:
            if task.fetches or task.future.status != "finished":
                task.value = task.future.result()
        except KilledWorker as killed:
            self._deaths.add(task, killed)
        except (CancelledError, OSError) as error:  # those of a lost connection are OSErrors
            if task.future.status != "error":
                self._start_over()
                return
            task.error = error
            yield from self._end(task)
        except Exception as error:  # of the function
            task.error = error
            yield from self._end(task)
        else:
            yield from self._end(task)

    def _end(self, task: Task) -> Iterator[Task]:
        self._outstanding.discard(task)
        task.release_delivered()
        if not task.ended:
            task.ended = True
            yield task

    def _start_over(self) -> None:
        """Connect again and submit everything that is outstanding again."""
        self._connection.open(self._scheduler_s)
        self._epoch += 1
        self._deaths.clear()
        self._served_at.clear()
        for task in tuple(self._outstanding):
            if task.epoch != self._epoch:
                self._send(task)

    def _review(self) -> Iterator[Task]:
        """Look at the tasks whose worker died, and at those that no worker can run."""
        now = time.monotonic()
        due = now - self._looked_at >= _LOOK_S
        if not (self._outstanding and (due or self._deaths.pending)):
            return
        if self._connection.client.status != "running":
            return
        self._looked_at = now
        try:
            workers = self._list_workers()
            verdicts = self._deaths.judge(self._connection.client, workers)
        except (OSError, RuntimeError):  # no connection: the futures of its client tell
            return
        for task, error in verdicts:
            if error is None:
                self._send(task)
            else:
                task.error = error
                yield from self._end(task)
        yield from self._find_stranded(workers, now)

    def _find_stranded(self, workers: list[dict[str, Any]], now: float) -> Iterator[Task]:
        """End the tasks for which there has been no worker for too long."""
        there = {name for one in workers for name in one["resources"]}
        for task in tuple(self._outstanding):
            wanted = {COMPILE} if task.kind == "build" else set(ask_for_lane(task.lane))
            missing = wanted - there
            what = (max(missing - {TIMED}, default=TIMED)) if missing else ""
            for name in wanted & there:
                self._served_at.pop(name, None)
            if what and now - self._served_at.setdefault(what, now) > self._lanes_s:
                task.error = LanesLostError(
                    f"no worker offers {what}, and none came within {self._lanes_s:.0f} s"
                )
                if task.future is not None:
                    task.future.cancel()
                yield from self._end(task)

    def _list_workers(self) -> list[dict[str, Any]]:
        client = self._connection.client
        # Without a limit, Dask tries for 30 s to reach a scheduler that is gone.
        found = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=_ANSWER_S)
        return [{**one, "address": address} for address, one in found["workers"].items()]


def _has_finished(task: Task) -> bool:
    return task.future is not None and task.future.status == "finished"
