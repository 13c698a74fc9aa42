"""Session files: Markdown that people read, with records in it that are appended whole."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from pydantic import TypeAdapter

from kernelkb.errors import OutsideError, Problem, SessionError, UnknownNameError
from kernelkb.model.session import Entry, Session, SessionId
from kernelkb.record import session_parser
from kernelkb.record.atomic_append import Appended, append_whole, read_whole, write_new
from kernelkb.record.session_parser import parsed
from kernelkb.record.session_text import END, dumped, entry_text, torn_at
from kernelkb.safety.workspace import inside

__all__ = [
    "append", "create", "dumped", "header", "parsed", "path_of", "read", "session_id", "sessions",
]  # fmt: skip

_ENDING = f"{END}\n".encode()
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ID = TypeAdapter(SessionId)


def session_id(kernel: str | None, day: date | None = None) -> str:
    """Return the id of a day's session with a kernel; sorts by day."""
    return f"{day or datetime.now(UTC).date()}-{kernel or 'notes'}"


def path_of(name: str, folder: Path) -> Path:
    """Return the file of a session."""
    return folder / f"{name}.md"


def create(session: Session, folder: Path, gates: Mapping[str, str] | None = None) -> Path:
    """Write the file of a new session and return it.

    Args:
        session: What it is for, its plan, and entries if there are any.
        folder: The project's ``sessions/``; made where it lacks.
        gates: The question that each gate of the plan asks, by its id; for people.

    Raises:
        SessionError: There is such a session, or the folder cannot be written.
    """
    path = path_of(session.session, folder)
    try:
        inside(folder, to_write=True)
        folder.mkdir(parents=True, exist_ok=True)
        write_new(path, dumped(session, gates).encode())
    except FileExistsError as error:
        if not path.is_file():
            raise _unwritten(path, error) from error
        said = f"there is a session {session.session} already; choose another id"
        raise SessionError(said) from error
    except OSError as error:
        raise _unwritten(path, error) from error
    return path


def append(entry: Entry, folder: Path) -> Path:
    """Append one entry to its session's file and return the file, made if it is not there.

    When this returns, the entry is on the disk. A process that is killed meanwhile leaves either
    all of the entry or nothing that is ever read; several processes may append at once.

    Raises:
        SessionError: The folder cannot be written, or the disk is full. The file is as it was.
    """
    path = path_of(entry.session, folder)
    body = entry_text(entry).encode()
    text = Appended(body, _header(entry) + body, torn_at, _ENDING)
    try:
        inside(folder, to_write=True)
        folder.mkdir(parents=True, exist_ok=True)
        append_whole(path, text)
    except OSError as error:
        raise _unwritten(path, error) from error
    return path


def _header(entry: Entry) -> bytes:
    """Return what stands above a session's first entry where nobody opened the session."""
    session = Session(session=entry.session, opened=entry.at, goal=entry.goal, kernel=entry.kernel)
    return dumped(session).encode()


def _unwritten(path: Path, error: OSError) -> SessionError:
    if isinstance(error, OutsideError):
        return SessionError(f"cannot write: {error}")
    full = error.errno in _FULL
    cure = "free some space; it is as it was" if full else "run in a project that you may write to"
    return SessionError(f"cannot write {path}: {(error.strerror or str(error)).lower()}; {cure}")


def sessions(folder: Path) -> list[str]:
    """Return the ids of all sessions in a folder, oldest first."""
    return sorted(path.stem for path in folder.glob("*.md") if path.exists() and _named(path.stem))


def _named(stem: str) -> bool:
    """Tell a session from a README."""
    try:
        return bool(_ID.validate_python(stem))
    except ValueError:
        return False


def read(name: str, folder: Path) -> Session:
    """Return one session, its entries in the order they were appended.

    Args:
        name: A session's id, or ``last``: the one that was written last.
        folder: The project's ``sessions/``.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file cannot be read, or something in it is wrong; says each place.
    """
    path, text = _text(name, folder)
    return parsed(text, _shown(path), path.stem)


def header(name: str, folder: Path) -> Session:
    """Return one session without its entries, from the front matter alone.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file cannot be read, or its front matter is wrong.
    """
    path, text = _text(name, folder)
    return session_parser.header(text, _shown(path), path.stem)


def _text(name: str, folder: Path) -> tuple[Path, str]:
    known = sessions(folder)
    if name == "last" and known:
        name = max(known, key=lambda one: path_of(one, folder).stat().st_mtime_ns)
    if name not in known:
        raise UnknownNameError("session", name, known, "kb session list")
    path = path_of(name, folder)
    try:
        body = read_whole(path, torn_at)
    except OSError as error:
        raise SessionError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}"
        ) from error
    try:
        return path, body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise session_parser.refusal(
            [Problem(_shown(path), line, 1, "file", f"not UTF-8 text: {error.reason}")]
        ) from error


def _shown(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)
