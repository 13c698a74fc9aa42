"""Tasks of a cluster, how a worker says that one has started, and what ends them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import uuid4

from kernelkb.cluster.lanes import COMPILE, ask_for_lane
from kernelkb.errors import KbError

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.scheduler import KilledWorker

STARTED_TOPIC = "kernelkb-started"
"""The topic of Dask's events that names every attempt that was really started."""
NOTES_TOPIC = "kernelkb-notes"
"""The topic of what attempts say of themselves while they run; see ``note_progress``."""
_RUNNING = threading.local()
_BUILD_NICENESS = 10
"""A thread at 0 gets nine times the time of one at 10 (Linux, ``sched_prio_to_weight``)."""

_MOST_DEATHS = 3
"""A task that ran on so many hosts as they died is to blame too."""


class WorkerDiedError(KbError):
    """The process of a worker died while it ran this task, and came back: the task is to blame.

    Attributes:
        note: The last one of the task; None where it gave none.
    """

    def __init__(self, text: str, note: str | None = None) -> None:
        super().__init__(text)
        self.note = note


class LanesLostError(KbError):
    """No worker that can run the task is left, and none came in time."""


class SchedulerLostError(KbError):
    """The scheduler that the user named is gone, and did not come back in time."""


class Task:
    """One call on a worker. ``Cluster.wait`` returns it once, when it ended.

    Attributes:
        lane: What the caller asked for: a UUID, a model, or None; always None for a build.
        label: Anything of the caller's, to know the task by.
        fetches: Whether the result comes to the caller, in the same answer as others that ended.
        cancelled: It was cancelled before it ended.
        delivered: Its result is with the caller.
        error: Why it has no result: what the function raised, or one of this module's errors.
    """

    def __init__(
        self,
        kind: Literal["build", "timed"],
        lane: str | None,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        label: object = None,
    ) -> None:
        self.kind, self.lane, self.label = kind, lane, label
        self.function, self.arguments = function, arguments
        self.fetches = kind == "timed"
        self.cancelled = False
        self.error: BaseException | None = None
        self.ended = False
        self.delivered = False
        # Of the base: the current attempt, and how many died with a worker while they ran.
        self.future: Future | None = None
        self.key = ""
        self.epoch = -1
        self.death_count = 0
        self.alone_on: tuple[str, float] | None = None
        self.value: Any = None

    def result(self) -> Any:
        """Return what the function returned; a build's comes from its worker now.

        Raises:
            BaseException: ``error``, if the task failed.
            RuntimeError: The task has not ended, or was cancelled.
        """
        if self.error is not None:
            raise self.error
        if not self.ended or self.cancelled:
            raise RuntimeError("the task was cancelled" if self.cancelled else "it still runs")
        if not self.fetches and self.future is not None:
            return self.future.result()
        return self.value

    @property
    def needs(self) -> tuple[Task, ...]:
        """The tasks whose results are arguments of this one."""
        return tuple(one for one in self.arguments if isinstance(one, Task))

    def release_delivered(self) -> None:
        """Let Dask forget a result that came: it would measure again if the worker died."""
        if self.fetches and self.future is not None:
            self.future.release()
            self.future, self.delivered = None, self.error is None

    def submit(self, client: Client, epoch: int) -> None:
        """Send a new attempt to the scheduler."""
        self.key, self.epoch = f"{self.kind}-{uuid4().hex}", epoch
        arguments = [_make_argument(one) for one in self.arguments]
        placing: dict[str, Any] = {"resources": ask_for_lane(self.lane)}
        start: Callable[..., Any] = run_announced
        if self.kind == "build":
            placing, start = {"resources": {COMPILE: 1}}, run_build
            if self.alone_on:
                name, cores = self.alone_on
                placing = {"workers": [name], "resources": {COMPILE: cores}}
        self.future = client.submit(
            start, self.key, self.function, *arguments, key=self.key, pure=False, **placing
        )


def _make_argument(given: Any) -> Any:
    if not isinstance(given, Task):
        return given
    return given.value if given.delivered else given.future


def run_announced(key: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a worker, after the scheduler has confirmed that it knows of the start.

    Dask counts what only waits on a worker that dies as suspicious too. The confirmation costs
    about 2 ms, and arrives also where the function ends the process at once.
    """
    from distributed import get_worker
    from distributed.utils import sync

    worker = get_worker()
    sync(worker.loop, worker.scheduler.log_event, topic=STARTED_TOPIC, msg=key)
    _RUNNING.key = key
    return function(*arguments)


def run_build(key: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call as ``run_announced`` does, at a low priority: what is timed gets a core first.

    On Linux the priority is that of this thread, and of the compilers that it starts.
    """
    if os.getpriority(os.PRIO_PROCESS, 0) < _BUILD_NICENESS:
        os.setpriority(os.PRIO_PROCESS, 0, _BUILD_NICENESS)
    return run_announced(key, function, *arguments)


def note_progress(note: str) -> None:
    """Say what the running task is at; the last note is known if its worker dies.

    It is not waited for: one that is given within a few milliseconds of the death may be lost.
    """
    from distributed import get_worker

    get_worker().log_event(NOTES_TOPIC, (_RUNNING.key, note))


class _Death(NamedTuple):
    worker: str
    address: str
    nanny: str | None
    key: str
    """Of the attempt that Dask blames; another task's where it is a build that this one needs."""
    deadline: float


class Deaths:
    """The tasks that ended with a worker's death, until it is known what that means.

    Args:
        return_s: Time for a worker to come back, s.
    """

    def __init__(self, return_s: float) -> None:
        self._return_s = return_s
        self._pending: dict[Task, _Death] = {}

    @property
    def pending(self) -> bool:
        """Whether a task waits for its verdict."""
        return bool(self._pending)

    def add(self, task: Task, killed: KilledWorker) -> None:
        """Note that Dask gave up an attempt because its worker died."""
        dead = killed.last_worker
        deadline = time.monotonic() + self._return_s
        self._pending[task] = _Death(
            str(dead.name), dead.address, dead.nanny, str(killed.task), deadline
        )

    def forget(self, task: Task) -> None:
        """Drop a task that was cancelled."""
        self._pending.pop(task, None)

    def clear(self) -> None:
        """Drop all: they are submitted again."""
        self._pending.clear()

    def judge(
        self, client: Client, workers: list[dict[str, Any]]
    ) -> list[tuple[Task, WorkerDiedError | None]]:
        """Return the tasks that are decided, each with its error, or None to submit it again.

        Args:
            client: Of the scheduler.
            workers: As the scheduler describes them now.
        """
        if not self._pending:
            return []
        started = {str(message) for _, message in client.get_events(STARTED_TOPIC)}
        decided: list[tuple[Task, WorkerDiedError | None]] = []
        for task, death in tuple(self._pending.items()):
            if death.key != task.key:
                self._revive_needed(task)
                decided.append((task, None))
            elif death.key not in started:
                decided.append((task, None))
            elif _came_back(death, workers):
                note = _find_note(client, death.key)
                decided.append((task, self._blame(task, death, workers, note)))
            elif _is_gone(death, workers) or time.monotonic() > death.deadline:
                task.death_count += 1
                to_blame = task.death_count >= _MOST_DEATHS
                decided.append((task, _describe(death, "and its host") if to_blame else None))
        for task, _ in decided:
            self._pending.pop(task, None)
        return decided

    def _blame(
        self, task: Task, death: _Death, workers: list[dict[str, Any]], note: str | None
    ) -> WorkerDiedError | None:
        """Return the error, or None for a build that shared its worker: it runs again, alone."""
        if task.kind == "timed" or task.alone_on is not None:
            return _describe(death, note=note)
        cores = next(
            one["resources"].get(COMPILE, 1) for one in workers if one["name"] == death.worker
        )
        task.alone_on = (death.worker, cores)
        return None

    def _revive_needed(self, task: Task) -> None:
        """Mark builds that are lost with their worker, and that nothing will submit again."""
        for needed in task.needs:
            failed = needed.future is not None and needed.future.status == "error"
            if failed and needed not in self._pending and needed.error is None:
                needed.future = None


def _came_back(death: _Death, workers: list[dict[str, Any]]) -> bool:
    return any(
        one["name"] == death.worker
        and one["nanny"] == death.nanny
        and one["address"] != death.address
        for one in workers
    )


def _is_gone(death: _Death, workers: list[dict[str, Any]]) -> bool:
    """Return whether the worker's nanny certainly is gone: replaced, or nothing listens there."""
    if any(one["name"] == death.worker and one["nanny"] != death.nanny for one in workers):
        return True
    host, _, port = (death.nanny or "").rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError):  # not reachable from here: says nothing
        return False
    return False


def _find_note(client: Client, key: str) -> str | None:
    """Return the last note of an attempt."""
    notes = [message for _, message in client.get_events(NOTES_TOPIC)]
    return next((str(note) for of, note in reversed(notes) if of == key), None)


def _describe(death: _Death, also: str = "", note: str | None = None) -> WorkerDiedError:
    whose = " ".join(part for part in ("its worker process", also) if part)
    return WorkerDiedError(f"{whose} died while it ran, on {death.worker}", note)
