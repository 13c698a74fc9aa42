"""Stores which session is open in a project; new measurements are logged to that session."""

from __future__ import annotations

import os
from pathlib import Path

from kernelkb.errors import SessionError, UnknownNameError
from kernelkb.model.base import SessionId
from kernelkb.record.sessions import read_header, read_session
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.workspace import read_text, resolve_inside


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
