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

from kernelkb.measure.process.progress import tell
from kernelkb.measure.process.subprocesses import pause

WAITING = "waiting for "
"""How it begins what a watcher is told while others are before us."""

_SHARED = "/tmp"  # noqa: S108 not TMPDIR, which differs from user to user; nothing is written in it
_POLL_S = 0.05
_OPEN: set[int] = set()
_MINE: ContextVar[frozenset[str]] = ContextVar("turns", default=frozenset())
_WAITED: ContextVar[float] = ContextVar("waited", default=0.0)


@contextmanager
def turn(device: str, title: Callable[[], str]) -> Iterator[str | None]:
    """Wait until nobody else measures on a device, and keep it to ourselves inside this block.

    Inside a turn another one of the same device is the same turn. Where no turn can be had, work
    goes on without: a folder that cannot be written must not stop a measurement.

    Args:
        device: Its name in the queue: letters, digits, dashes.
        title: Its name for a person; asked for only if there is somebody before us.

    Yields:
        Why others may measure at the same time; None where they do not, or where ``KB_TURNS=off``
        says that they are to.

    Raises:
        Cancelled: While it waited; see ``isolation.cancelled_by``.
    """
    base = os.environ.get("KB_TURNS") or _SHARED
    if base == "off" or device in _MINE.get():
        yield None
        return
    token = _MINE.set(_MINE.get() | {device})
    try:
        with _queued(Path(base) / f"kernelkb-turns-{device}", title) as why:
            yield why
    finally:
        _MINE.reset(token)


def waited_s() -> float:
    """Return how long this piece of work has waited for its turns, seconds."""
    return _WAITED.get()


@contextmanager
def _queued(folder: Path, title: Callable[[], str]) -> Iterator[str | None]:
    ticket, why = None, None
    try:
        try:
            ticket = _Ticket(folder)
            _wait(ticket, title)
        except OSError as error:
            why = (
                f"others may have measured at the same time, because {error.filename or folder} "
                f"cannot be used ({error.strerror}); set KB_TURNS to a folder that can be written"
            )
            tell(why)
        yield why
    finally:
        if ticket:
            ticket.give_back()


def _wait(ticket: _Ticket, title: Callable[[], str]) -> None:
    before = ticket.before()
    if not before:
        return
    started, told, name = time.monotonic(), 0, title()
    try:
        while before:
            if before != told:
                tell(f"{WAITING}{name}: {before} before us")
                told = before
            pause(_POLL_S)
            before = ticket.before()
    finally:
        _WAITED.set(_WAITED.get() + time.monotonic() - started)
    tell(f"{name} is free")


class _Ticket:
    """A place in the queue of a device."""

    def __init__(self, folder: Path) -> None:
        """Take the next number, and clear away what the dead have left.

        Raises:
            OSError: The folder cannot be used.
        """
        self._folder = folder
        gate = _opened_folder(folder)
        try:
            _lock_folder(gate)
            numbers = _numbers(folder)
            for number in numbers:
                if not _alive(folder / _name(number)):
                    with suppress(OSError):  # another user's
                        (folder / _name(number)).unlink()
            self._number = max(numbers, default=0) + 1
            self._path = folder / _name(self._number)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o644)
            _OPEN.add(self._file)
            self._claim()
        finally:
            os.close(gate)

    def _claim(self) -> None:
        try:
            os.fchmod(self._file, 0o644)  # whatever the umask: others must be able to look
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError:
            self.give_back()
            raise

    def before(self) -> int:
        """Return how many living tickets have a lower number.

        Raises:
            OSError: The folder is gone.
        """
        earlier = (number for number in _numbers(self._folder) if number < self._number)
        return sum(_alive(self._folder / _name(number)) for number in earlier)

    def give_back(self) -> None:
        """Let the next one have its turn."""
        with suppress(OSError):
            self._path.unlink()
        _OPEN.discard(self._file)
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)  # also of a copy that a fork has made
        os.close(self._file)


def _opened_folder(folder: Path) -> int:
    """Open a folder in which every user may put files, and nobody remove another's."""
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
        folder.chmod(stat.S_ISVTX | 0o777)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _lock_folder(gate: int) -> None:
    """Take numbers one after another; whoever is stopped in between must not hold us for ever."""
    while True:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause(_POLL_S / 10)
        else:
            return


def _name(number: int) -> str:
    return f"{number:012d}"


def _numbers(folder: Path) -> list[int]:
    names = (entry.name for entry in folder.iterdir())
    return sorted(int(name) for name in names if name.isdecimal())


def _alive(ticket: Path) -> bool:
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


def _forget() -> None:
    for file in tuple(_OPEN):
        with suppress(OSError):
            os.close(file)
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget)
