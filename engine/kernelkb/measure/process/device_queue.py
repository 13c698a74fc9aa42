"""First-come, first-served lock for each device, across all processes of this machine.

Each waiting or measuring process holds a ticket: a file whose name is its number, in the folder of
the device. It holds an exclusive lock (flock) on the ticket until it is done. The kernel releases
that lock however a process ends, so a ticket that can be locked belongs to a dead process, and no
lock is ever stale. The lowest locked ticket owns the device.

Limits:

- Processes, threads of one process, and users queue alike. Only the files differ: a dead ticket of
  another user is ignored, and is removed by the next measurement of that user or of root.
- A child process never holds its parent's ticket: the file is closed by exec, and after a plain
  fork in the child.
- When the owner is killed, its ticket is free at once and its children are killed in the same
  moment (see ``supervisor.py``), but a process on a GPU takes longer to exit. The next owner needs
  longer than that to start its own worker, and a bench detects work of other processes.
- Processes that do not see the same folder, in another container for instance, do not queue with
  ours.

No torch and no records here, so that it imports quickly; ``machine/environment.py`` chooses the
device's name.
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

from kernelkb.progress import report_progress, sleep_cancellable

_SHARED_FOLDER = "/tmp"  # noqa: S108 not TMPDIR, which differs from user to user; files stay empty
# The older name on disk: a version from before KB_DEVICE_QUEUE may run beside us, and both must
# queue in the same folder.
_FOLDER_PREFIX = "kernelkb-turns-"
_POLL_S = 0.05
_FOLDER_POLL_S = _POLL_S / 10
"""Shorter, since a number is drawn in a few system calls."""
_OPEN_TICKETS: set[int] = set()
_HELD_DEVICES: ContextVar[frozenset[str]] = ContextVar("held_devices", default=frozenset())
_QUEUE_WAIT_S: ContextVar[float] = ContextVar("queue_wait_s", default=0.0)


@contextmanager
def exclusive_device(device: str, get_title: Callable[[], str]) -> Iterator[str | None]:
    """Wait until this process may measure on a device, and hold the device inside this block.

    Reentrant: a nested block for the same device shares the outer lock. Where the queue's folder
    cannot be used, the block runs without a lock: that must not stop a measurement.

    Args:
        device: Its key in the queue: letters, digits, dashes.
        get_title: Returns its title for people; called only if others are before us.

    Yields:
        A warning, when the device could not be locked; None when it is locked, or when
        ``KB_DEVICE_QUEUE=off`` asks for no lock.

    Raises:
        OperationCancelled: While it waited; see ``progress.cancel_on``.
    """
    base = _read_queue_setting()
    if base == "off" or device in _HELD_DEVICES.get():
        yield None
        return
    token = _HELD_DEVICES.set(_HELD_DEVICES.get() | {device})
    try:
        with _hold_ticket(Path(base) / f"{_FOLDER_PREFIX}{device}", get_title) as warning:
            yield warning
    finally:
        _HELD_DEVICES.reset(token)


def queue_wait_s() -> float:
    """Return how long this thread's current work has waited for devices, seconds in total."""
    return _QUEUE_WAIT_S.get()


def _read_queue_setting() -> str:
    """Return the base folder of all queues, or ``off``; ``KB_TURNS`` is the variable's old name."""
    environ = os.environ
    return environ.get("KB_DEVICE_QUEUE") or environ.get("KB_TURNS") or _SHARED_FOLDER


@contextmanager
def _hold_ticket(folder: Path, get_title: Callable[[], str]) -> Iterator[str | None]:
    ticket, warning = None, None
    try:
        try:
            ticket = _QueueTicket(folder)
            _wait_for_device(ticket, get_title)
        except OSError as error:
            warning = (
                "others may have measured at the same time, because "
                f"{error.filename or folder} cannot be used ({error.strerror}); "
                "set KB_DEVICE_QUEUE to a folder that can be written"
            )
            report_progress(warning, "notice")
        yield warning
    finally:
        if ticket:
            ticket.release()


def _wait_for_device(ticket: _QueueTicket, get_title: Callable[[], str]) -> None:
    earlier = ticket.count_earlier()
    if not earlier:
        return
    started, reported, title = time.monotonic(), 0, get_title()
    try:
        while earlier:
            if earlier != reported:
                report_progress(f"waiting for {title}: {earlier} before us", "waiting")
                reported = earlier
            sleep_cancellable(_POLL_S)
            earlier = ticket.count_earlier()
    finally:
        _QUEUE_WAIT_S.set(_QUEUE_WAIT_S.get() + time.monotonic() - started)
    report_progress(f"{title} is free")


class _QueueTicket:
    """This process's place in the queue of a device."""

    def __init__(self, folder: Path) -> None:
        """Draw the next number and remove the tickets of dead processes.

        Raises:
            OSError: The folder cannot be used.
        """
        self._folder = folder
        directory = _open_queue_folder(folder)
        try:
            _lock_folder(directory)
            numbers = _list_ticket_numbers(folder)
            for number in numbers:
                if not _is_held(folder / _format_ticket_name(number)):
                    with suppress(OSError):  # it belongs to another user
                        (folder / _format_ticket_name(number)).unlink()
            self._number = max(numbers, default=0) + 1
            self._path = folder / _format_ticket_name(self._number)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o644)
            _OPEN_TICKETS.add(self._file)
            self._lock()
        finally:
            os.close(directory)

    def _lock(self) -> None:
        try:
            os.fchmod(self._file, 0o644)  # despite the umask: other users must be able to read
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError:
            self.release()
            raise

    def count_earlier(self) -> int:
        """Return how many live tickets have a lower number.

        Raises:
            OSError: The folder is gone.
        """
        earlier = (number for number in _list_ticket_numbers(self._folder) if number < self._number)
        return sum(_is_held(self._folder / _format_ticket_name(number)) for number in earlier)

    def release(self) -> None:
        """Leave the queue; the next ticket owns the device."""
        with suppress(OSError):
            self._path.unlink()
        _OPEN_TICKETS.discard(self._file)
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)  # also the copy of a forked child
        os.close(self._file)


def _open_queue_folder(folder: Path) -> int:
    """Open a device's folder; mode 1777 as of /tmp, so that users cannot remove others' files."""
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
        folder.chmod(stat.S_ISVTX | 0o777)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _lock_folder(descriptor: int) -> None:
    """Lock the folder while a number is drawn; cancellable, as its owner may be stopped."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep_cancellable(_FOLDER_POLL_S)
        else:
            return


def _format_ticket_name(number: int) -> str:
    return f"{number:012d}"


def _list_ticket_numbers(folder: Path) -> list[int]:
    names = (entry.name for entry in folder.iterdir())
    return sorted(int(name) for name in names if name.isdecimal())


def _is_held(ticket: Path) -> bool:
    """Return whether a live process holds a ticket.

    A number is drawn and locked while the folder is locked, so every lower ticket was locked
    before: one that no longer is never will be again.

    Raises:
        OSError: Too many files are open to check one more.
    """
    try:  # any user can create files here: a link, or a pipe whose open would block
        file = os.open(ticket, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: checks do not block each other
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
