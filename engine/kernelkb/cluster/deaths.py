"""Decides what a task's death with its worker means: the task is to blame, or it runs again."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelkb.cluster.lanes import COMPILE
from kernelkb.cluster.tasks import NOTES_TOPIC, STARTED_TOPIC, Task, WorkerDiedError

if TYPE_CHECKING:
    from distributed import Client
    from distributed.scheduler import KilledWorker

_MOST_DEATHS = 3
"""A task that ran on so many hosts as they died is to blame too."""


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
