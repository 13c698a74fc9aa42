"""The session that is open in a project: what is measured now belongs to it."""

from __future__ import annotations

import os
from pathlib import Path

from kernelkb.errors import SessionError, UnknownNameError
from kernelkb.model.session import SessionId
from kernelkb.record.sessions import read_header, read_session
from kernelkb.safety.workspace import read_text, resolve_inside


def find_open_session(project: Path) -> SessionId | None:
    """Return the open session of a project; None where there is none.

    One whose file is gone or that is closed counts as none. One whose file has a mistake in it is
    open: what is measured must not get lost over a typing error.
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
    """Say, at the cost of one look, whether ``current`` may find an open session."""
    return os.path.lexists(_marker_path(project))


def find_open_session_for(kernel: str | None, project: Path) -> SessionId | None:
    """Return the open session, unless it is about another kernel.

    Raises:
        SessionError: Its front matter has a mistake in it.
    """
    name = find_open_session(project)
    if name is None:
        return None
    about = read_header(name, project / "sessions").kernel
    return name if kernel is None or about in (None, kernel) else None


def set_open_session(project: Path, session: SessionId) -> None:
    """Make a session the open one; another that was open is so no longer.

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
        raise SessionError(f"cannot write {mark}: {(error.strerror or '').lower()}") from error


def clear_open_session(project: Path) -> None:
    """Leave no session open.

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
