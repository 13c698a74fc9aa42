"""Appends to text files atomically: several processes may append, and no partial append is read.

Writers and readers hold a lock (flock) on the file itself. An append is one write that is on the
disk (fsync) before it returns. If a writer is killed, the next writer cuts off the torn tail, and
readers skip it.
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
"""Returns the offset of the torn tail in a file's content; the content's length without one."""


class AppendRequest(NamedTuple):
    """The text to append to a file, and how to recognize a torn tail."""

    body: bytes
    """The bytes to append; they end with ``ending``."""
    initial_file: bytes
    """Content of the whole file, including ``body``, for a file that is missing or empty."""
    find_torn_tail: TailFinder
    ending: bytes
    """A file with this ending is whole, so the rest of it need not be read."""


def write_new(path: Path, body: bytes) -> None:
    """Create a file; it appears whole or not at all.

    Raises:
        FileExistsError: The file exists.
        OSError: The file cannot be written, and was not created.
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
        os.link(draft, path)  # unlike a rename, it never replaces an existing file
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def append_atomically(path: Path, text: AppendRequest) -> None:
    """Append to a file by a single write; create the file if missing.

    Raises:
        OSError: The file cannot be written, and is unchanged.
    """
    while True:
        try:
            _append_locked(path, text)
            return
        except FileNotFoundError:
            try:
                write_new(path, text.initial_file)
                return
            except FileExistsError:  # another process created it first
                if not path.exists():  # a dangling symbolic link, not a new file
                    raise


def read_without_torn_tail(path: Path, find_torn_tail: TailFinder) -> bytes:
    """Return the content of a file without the torn tail of a killed writer.

    Raises:
        OSError: The file cannot be read.
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
    """Yield a descriptor that appends to a file, with an exclusive lock on the file.

    If an editor replaced the file during the wait for the lock, the new file is opened instead.

    Raises:
        OSError: The file does not exist, or cannot be opened.
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
            os.ftruncate(descriptor, before)  # disk full: remove the partial append
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
    """Write all bytes: one call, unless the disk is full; then the second call raises OSError."""
    written = os.write(descriptor, body)
    while written < len(body):
        written += os.write(descriptor, body[written:])


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
