"""Creates, appends to and reads session files: Markdown with YAML records, appended atomically."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from pydantic import TypeAdapter

from kernelkb.errors import ForbiddenPathError, Problem, SessionError, UnknownNameError
from kernelkb.model.base import SessionId
from kernelkb.model.records.session import Session, SessionEntry
from kernelkb.record import session_parser
from kernelkb.record.atomic_append import (
    AppendRequest,
    append_atomically,
    read_without_torn_tail,
    write_new,
)
from kernelkb.record.session_parser import parse_session
from kernelkb.record.session_text import ENTRY_END, find_torn_tail, format_entry, format_session
from kernelkb.safety.workspace import resolve_inside

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
        write_new(path, format_session(session, gates).encode())
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
    """Return the ids of all sessions in a folder, oldest first."""
    return sorted(
        path.stem for path in folder.glob("*.md") if path.exists() and _is_session_id(path.stem)
    )


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
    return session_parser.parse_header(text, _display_path(path), path.stem)


def _read_text(name: str, folder: Path) -> tuple[Path, str]:
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
        raise session_parser.make_session_error(
            [Problem(_display_path(path), line, 1, "file", f"not UTF-8 text: {error.reason}")]
        ) from error


def _display_path(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)
