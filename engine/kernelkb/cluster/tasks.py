"""Tasks of a cluster, what ends them, and how a worker says that one has started."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from kernelkb.cluster.lanes import COMPILE, ask_for_lane
from kernelkb.errors import KbError

if TYPE_CHECKING:
    from distributed import Client, Future

STARTED_TOPIC = "kernelkb-started"
"""The topic of Dask's events that names every attempt that was really started."""
NOTES_TOPIC = "kernelkb-notes"
"""The topic of what attempts say of themselves while they run; see ``note_progress``."""
_RUNNING = threading.local()
_BUILD_NICENESS = 10
"""A thread at 0 gets nine times the time of one at 10 (Linux, ``sched_prio_to_weight``)."""


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
