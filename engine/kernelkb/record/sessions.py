"""Creates, appends to and reads the files of sessions, and stores which session is open.

Writers and readers hold a lock (flock) on the file of a session. An append is one write that is on
the disk (fsync) before it returns. If a writer is killed, the next writer cuts off the torn tail,
and readers skip it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from kernelkb.errors import ForbiddenPathError, Problem, SessionError, UnknownNameError
from kernelkb.model.base import SessionId
from kernelkb.model.records.session import Session, SessionEntry
from kernelkb.record import session_text
from kernelkb.record.session_text import (
    ENTRY_END,
    find_torn_tail,
    format_entry,
    format_session,
    parse_session,
)
from kernelkb.safety.files import create_file
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.workspace import open_inside, read_text, resolve_inside

TailFinder = Callable[[bytes], int]
"""Returns the offset of the torn tail in a file's content; the content's length without one."""

__all__ = [
    "append_entry",
    "create_session",
    "format_session",
    "list_session_ids",
    "make_session_id",
    "parse_session",
    "read_header",
    "read_session",
    "session_path",
]  # fmt: skip

_ENTRY_ENDING = f"{ENTRY_END}\n".encode()
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SESSION_ID_ADAPTER = TypeAdapter(SessionId)


def make_session_id(kernel: str | None, day: date | None = None) -> str:
    """Return the id of a day's session with a kernel; ids sort by day."""
    return f"{day or datetime.now(UTC).date()}-{kernel or 'notes'}"


def session_path(name: str, folder: Path) -> Path:
    """Return the file of a session."""
    return folder / f"{name}.md"


def create_session(session: Session, folder: Path, gates: Mapping[str, str] | None = None) -> Path:
    """Write the file of a new session and return its path.

    Args:
        session: Its goal, its plan, and entries if there are any.
        folder: The project's ``sessions/``; created if missing.
        gates: The question that each gate of the plan asks, by its id; for people.

    Raises:
        SessionError: The session exists, or the folder is not writable.
    """
    path = session_path(session.session, folder)
    try:
        resolve_inside(folder, to_write=True)
        folder.mkdir(parents=True, exist_ok=True)
        create_file(path, format_session(session, gates).encode())
    except FileExistsError as error:
        if not path.is_file():
            raise _make_write_error(path, error) from error
        raise SessionError(
            f"there is a session {session.session} already; choose another id"
        ) from error
    except OSError as error:
        raise _make_write_error(path, error) from error
    return path


def append_entry(entry: SessionEntry, folder: Path) -> Path:
    """Append one entry to its session's file and return its path; create the file if missing.

    When this returns, the entry is on the disk. A process that is killed meanwhile leaves either
    the whole entry or a torn tail that is never read; several processes may append at once.

    Raises:
        SessionError: The folder is not writable, or the disk is full. The file is unchanged.
    """
    path = session_path(entry.session, folder)
    body = format_entry(entry).encode()
    text = AppendRequest(body, _format_default_header(entry) + body, find_torn_tail, _ENTRY_ENDING)
    try:
        resolve_inside(folder, to_write=True)
        folder.mkdir(parents=True, exist_ok=True)
        append_atomically(path, text)
    except OSError as error:
        raise _make_write_error(path, error) from error
    return path


def _format_default_header(entry: SessionEntry) -> bytes:
    """Return the header of a session that its first entry creates."""
    session = Session(session=entry.session, opened=entry.at, goal=entry.goal, kernel=entry.kernel)
    return format_session(session).encode()


def _make_write_error(path: Path, error: OSError) -> SessionError:
    if isinstance(error, ForbiddenPathError):
        return SessionError(f"cannot write: {error}")
    full = error.errno in _DISK_FULL_ERRNOS
    cure = (
        "free some space; the file is unchanged"
        if full
        else "run in a project that you may write to"
    )
    return SessionError(f"cannot write {path}: {(error.strerror or str(error)).lower()}; {cure}")


def list_session_ids(folder: Path) -> list[str]:
    """Return the ids of all sessions in a folder, oldest first; 3 ms where there are 500."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        found = [one.name[:-3] for one in entries if one.name.endswith(".md") and one.is_file()]
        return sorted(name for name in found if _is_session_id(name))
    return []


def _is_session_id(stem: str) -> bool:
    """Return whether a file name is a session id; README is not."""
    try:
        return bool(_SESSION_ID_ADAPTER.validate_python(stem))
    except ValueError:
        return False


def read_session(name: str, folder: Path) -> Session:
    """Return one session, its entries in the order they were appended.

    Args:
        name: A session's id, or ``last`` for the one written last.
        folder: The project's ``sessions/``.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file cannot be read, or is invalid; lists each problem.
    """
    path, text = _read_text(name, folder)
    return parse_session(text, _display_path(path), path.stem)


def read_header(name: str, folder: Path) -> Session:
    """Return one session without its entries, from the front matter alone.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file cannot be read, or its front matter is invalid.
    """
    path, text = _read_text(name, folder)
    return session_text.parse_header(text, _display_path(path), path.stem)


def _read_text(name: str, folder: Path) -> tuple[Path, str]:
    if name == "last" or not _is_session_id(name) or not session_path(name, folder).exists():
        known = list_session_ids(folder)
        if name == "last" and known:
            name = max(known, key=lambda one: session_path(one, folder).stat().st_mtime_ns)
        if name not in known:
            raise UnknownNameError("session", name, known, "session list")
    path = session_path(name, folder)
    try:
        body = read_without_torn_tail(path, find_torn_tail)
    except OSError as error:
        raise SessionError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}"
        ) from error
    try:
        return path, body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise session_text.make_session_error(
            [Problem(_display_path(path), line, 1, "file", f"not UTF-8 text: {error.reason}")]
        ) from error


def _display_path(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def find_open_session(project: Path) -> SessionId | None:
    """Return the id of the open session of a project; None if no session is open.

    A session without a file or a closed session is not open. A session with an invalid file is
    open: measurements must not get lost because of a typing error in the file.
    """
    try:
        name = read_text(_marker_path(project)).strip()
        found = read_session(name, project / "sessions")
    except SessionError:
        return name
    except (OSError, UnicodeDecodeError, UnknownNameError):
        return None
    return None if found.is_closed else found.session


def may_have_open_session(project: Path) -> bool:
    """Return whether a session may be open, by one check of a file: whether the marker exists."""
    return os.path.lexists(_marker_path(project))


def find_open_session_for(kernel: str | None, project: Path) -> SessionId | None:
    """Return the id of the open session; None without one, or if it is for another kernel.

    Raises:
        SessionError: The front matter of the session's file is invalid.
    """
    name = find_open_session(project)
    if name is None:
        return None
    about = read_header(name, project / "sessions").kernel
    return name if kernel is None or about in (None, kernel) else None


def set_open_session(project: Path, session: SessionId) -> None:
    """Make a session the open one, instead of the session that was open before.

    Raises:
        SessionError: The project cannot be written.
    """
    mark = _marker_path(project)
    draft = mark.with_name(f"session.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        resolve_inside(mark.parent, to_write=True)
        mark.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(f"{session}\n", encoding="utf-8")
            draft.replace(mark)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        cure = describe_write_cure(error, "run in a project that you may write to")
        said = (error.strerror or "").lower()
        raise SessionError(f"cannot write {mark}: {said}; {cure}") from error


def clear_open_session(project: Path) -> None:
    """Delete the marker of the open session, so that no session is open.

    Raises:
        SessionError: The project cannot be written.
    """
    mark = _marker_path(project)
    try:
        mark.unlink(missing_ok=True)
    except OSError as error:
        raise SessionError(f"cannot delete {mark}: {(error.strerror or '').lower()}") from error


def _marker_path(project: Path) -> Path:
    return project / ".kb" / "session"


class AppendRequest(NamedTuple):
    """The text to append to a file, and how to recognize a torn tail."""

    body: bytes
    """The bytes to append; they end with ``ending``."""
    initial_file: bytes
    """Content of the whole file, including ``body``, for a file that is missing or empty."""
    find_torn_tail: TailFinder
    ending: bytes
    """A file with this ending is whole, so the rest of it need not be read."""


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
                create_file(path, text.initial_file)
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
