"""One measurement at a time on each device: a queue of all processes of this machine, in order.

Whoever measures holds a ticket, a file whose name is its number, in a folder that belongs to the
device. The ticket is locked (flock) for as long as its holder lives: Linux lets go of the lock
however a process ends, so a ticket that can be locked is a dead one's, and nothing is ever stale.
The lowest living number has its turn.

What holds, and what does not:

- Processes, threads of one process, and users are all the same to the queue. Only their files are
  not: a dead ticket of another user stays, counts for nothing, and is removed by that user's next
  turn or by root's.
- A child never holds the ticket of its parent: it is closed when a program is executed, and in the
  child of a plain fork.
- When the holder is killed its ticket is free at once, and what it had started is killed by Linux
  in the same moment (see ``keeper``). To take apart a process on a GPU takes a moment more. Whoever
  is next spends longer than that on starting its own, and its bench looks for strangers.
- Who does not see the same folder, in another container for instance, does not queue with us.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from kernelkb.measure.process.progress import report_progress
from kernelkb.measure.process.subprocesses import sleep_cancellable

WAITING_PREFIX = "waiting for "
"""How it begins what a watcher is told while others are before us."""

_SHARED_FOLDER = "/tmp"  # noqa: S108 not TMPDIR, which differs from user to user; nothing is written in it
_POLL_S = 0.05
_OPEN_TICKETS: set[int] = set()
_HELD_DEVICES: ContextVar[frozenset[str]] = ContextVar("turns", default=frozenset())
_QUEUE_WAIT_S: ContextVar[float] = ContextVar("waited", default=0.0)


@contextmanager
def exclusive_device(device: str, get_title: Callable[[], str]) -> Iterator[str | None]:
    """Wait until nobody else measures on a device, and keep it to ourselves inside this block.

    Inside a turn another one of the same device is the same turn. Where no turn can be had, work
    goes on without: a folder that cannot be written must not stop a measurement.

    Args:
        device: Its name in the queue: letters, digits, dashes.
        get_title: Its name for a person; asked for only if there is somebody before us.

    Yields:
        Why others may measure at the same time; None where they do not, or where ``KB_TURNS=off``
        says that they are to.

    Raises:
        Cancelled: While it waited; see ``isolation.cancelled_by``.
    """
    base = os.environ.get("KB_TURNS") or _SHARED_FOLDER
    if base == "off" or device in _HELD_DEVICES.get():
        yield None
        return
    token = _HELD_DEVICES.set(_HELD_DEVICES.get() | {device})
    try:
        with _hold_ticket(Path(base) / f"kernelkb-turns-{device}", get_title) as why:
            yield why
    finally:
        _HELD_DEVICES.reset(token)


def queue_wait_s() -> float:
    """Return how long this piece of work has waited for its turns, seconds."""
    return _QUEUE_WAIT_S.get()


@contextmanager
def _hold_ticket(folder: Path, get_title: Callable[[], str]) -> Iterator[str | None]:
    ticket, why = None, None
    try:
        try:
            ticket = _QueueTicket(folder)
            _wait_for_device(ticket, get_title)
        except OSError as error:
            why = (
                f"others may have measured at the same time, because {error.filename or folder} "
                f"cannot be used ({error.strerror}); set KB_TURNS to a folder that can be written"
            )
            report_progress(why)
        yield why
    finally:
        if ticket:
            ticket.release()


def _wait_for_device(ticket: _QueueTicket, get_title: Callable[[], str]) -> None:
    before = ticket.count_earlier()
    if not before:
        return
    started, told, name = time.monotonic(), 0, get_title()
    try:
        while before:
            if before != told:
                report_progress(f"{WAITING_PREFIX}{name}: {before} before us")
                told = before
            sleep_cancellable(_POLL_S)
            before = ticket.count_earlier()
    finally:
        _QUEUE_WAIT_S.set(_QUEUE_WAIT_S.get() + time.monotonic() - started)
    report_progress(f"{name} is free")


class _QueueTicket:
    """A place in the queue of a device."""

    def __init__(self, folder: Path) -> None:
        """Take the next number, and clear away what the dead have left.

        Raises:
            OSError: The folder cannot be used.
        """
        self._folder = folder
        gate = _open_queue_folder(folder)
        try:
            _lock_folder(gate)
            numbers = _list_ticket_numbers(folder)
            for number in numbers:
                if not _is_held(folder / _format_ticket_name(number)):
                    with suppress(OSError):  # another user's
                        (folder / _format_ticket_name(number)).unlink()
            self._number = max(numbers, default=0) + 1
            self._path = folder / _format_ticket_name(self._number)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o644)
            _OPEN_TICKETS.add(self._file)
            self._lock()
        finally:
            os.close(gate)

    def _lock(self) -> None:
        try:
            os.fchmod(self._file, 0o644)  # whatever the umask: others must be able to look
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError:
            self.release()
            raise

    def count_earlier(self) -> int:
        """Return how many living tickets have a lower number.

        Raises:
            OSError: The folder is gone.
        """
        earlier = (number for number in _list_ticket_numbers(self._folder) if number < self._number)
        return sum(_is_held(self._folder / _format_ticket_name(number)) for number in earlier)

    def release(self) -> None:
        """Let the next one have its turn."""
        with suppress(OSError):
            self._path.unlink()
        _OPEN_TICKETS.discard(self._file)
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)  # also of a copy that a fork has made
        os.close(self._file)


def _open_queue_folder(folder: Path) -> int:
    """Open a folder in which every user may put files, and nobody remove another's."""
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
        folder.chmod(stat.S_ISVTX | 0o777)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _lock_folder(descriptor: int) -> None:
    """Take numbers one after another; whoever is stopped in between must not hold us for ever."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep_cancellable(_POLL_S / 10)
        else:
            return


def _format_ticket_name(number: int) -> str:
    return f"{number:012d}"


def _list_ticket_numbers(folder: Path) -> list[int]:
    names = (entry.name for entry in folder.iterdir())
    return sorted(int(name) for name in names if name.isdecimal())


def _is_held(ticket: Path) -> bool:
    """Return whether somebody holds a ticket.

    A number is given out and locked while the folder is locked, so every lower one was locked
    before: one that is not any more never will be.

    Raises:
        OSError: Too many files are open to look at one more.
    """
    try:  # anybody may have put anything there: a link, or a pipe that would never open
        file = os.open(ticket, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # those who look do not hinder each other
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(file)


def _close_tickets_after_fork() -> None:
    for file in tuple(_OPEN_TICKETS):
        with suppress(OSError):
            os.close(file)
    _OPEN_TICKETS.clear()


os.register_at_fork(after_in_child=_close_tickets_after_fork)
