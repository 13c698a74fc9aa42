"""A text file that several processes append to, and none of them can tear.

Whoever writes or reads holds the file's own lock. An append is one write, on the disk before it
returns; what a killed writer left unfinished is cut off by the next one, and never read.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from kernelkb.safety.workspace import open_inside, resolve_inside

TailFinder = Callable[[bytes], int]
"""Says where the unfinished tail of a file begins; its length where there is none."""


class AppendRequest(NamedTuple):
    """What to append to a file."""

    body: bytes
    """Ends with ``ending``."""
    initial_file: bytes
    """The whole file with the same in it, for a file that is not there or empty."""
    find_torn_tail: TailFinder
    ending: bytes
    """With which a file that is whole may end, so that the rest need not be read."""


def write_new(path: Path, body: bytes) -> None:
    """Write a file that is not there yet; it appears whole or not at all.

    Raises:
        FileExistsError: It is there.
        OSError: It cannot be written; then it is not there.
    """
    resolve_inside(path.parent, to_write=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            _write_all(descriptor, body)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(draft, path)  # unlike a rename, it never replaces what another one wrote
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def append_atomically(path: Path, text: AppendRequest) -> None:
    """Append to a file by a single write, or make it.

    Raises:
        OSError: It cannot be written; then it is as it was.
    """
    while True:
        try:
            _append_locked(path, text)
            return
        except FileNotFoundError:
            try:
                write_new(path, text.initial_file)
                return
            except FileExistsError:  # somebody else was faster
                if not path.exists():  # no: it is a link that leads nowhere
                    raise


def read_without_torn_tail(path: Path, find_torn_tail: TailFinder) -> bytes:
    """Return what a file holds, without a tail that a writer did not finish.

    Raises:
        OSError: It cannot be read.
    """
    descriptor = open_inside(path)
    try:
        with suppress(OSError):  # a file system without locks can still be read
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        body = _read_all(descriptor)
    finally:
        os.close(descriptor)
    return body[: find_torn_tail(body)]


@contextmanager
def lock_for_append(path: Path) -> Iterator[int]:
    """Yield a descriptor that appends to a file, while nobody else writes to it.

    An editor may put another file in the place of the one that was waited for: then it is that.

    Raises:
        OSError: It is not there, or cannot be opened.
    """
    while True:
        descriptor = open_inside(path, os.O_RDWR | os.O_APPEND)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _append_locked(path: Path, text: AppendRequest) -> None:
    with lock_for_append(path) as descriptor:
        _truncate_torn_tail(descriptor, text)
        before = os.fstat(descriptor).st_size
        try:
            _write_all(descriptor, text.body if before else text.initial_file)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)  # a full disk: leave no half of it
            raise


def _truncate_torn_tail(descriptor: int, text: AppendRequest) -> None:
    size = os.fstat(descriptor).st_size
    length = len(text.ending)
    if os.pread(descriptor, length, max(0, size - length)) == text.ending:
        return
    cut = text.find_torn_tail(_read_all(descriptor))
    if cut < size:
        os.ftruncate(descriptor, cut)


def _read_all(descriptor: int) -> bytes:
    body = b""
    while part := os.pread(descriptor, 1 << 26, len(body)):
        body += part
    return body


def _write_all(descriptor: int, body: bytes) -> None:
    """Write everything: in one call, unless the disk is full, which the next call then says."""
    written = os.write(descriptor, body)
    while written < len(body):
        written += os.write(descriptor, body[written:])


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
