"""Log what was learnt; show what was done."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.actions.workplace import project
from engine.errors import BadValueError, SessionError
from engine.model.session import Entry
from engine.record import sessions as files

_RETROSPECTIVE = (
    "goal",
    "kernel",
    "variant",
    "target",
    "decisions",
    "went_wrong",
    "went_right",
    "pattern_candidates",
    "metrics",
    "cost_usd",
    "session",
)


def log_session(what: Mapping[str, Any]) -> tuple[Entry, Path]:
    """Append a retrospective to the project's sessions.

    Args:
        what: Fields of ``engine.model.session.Entry``; ``goal`` is required, ``at`` is now, and
            ``session`` is today's with that kernel unless it names another.

    Raises:
        BadValueError: A field is missing, unknown, or holds something else.
        SessionError: The project cannot be written.
    """
    strange = sorted(set(what) - set(_RETROSPECTIVE))
    if strange:
        known = ", ".join(_RETROSPECTIVE)
        raise BadValueError(f"a session has no field {strange[0]!r}; it has {known}")
    given = {key: value for key, value in what.items() if value is not None}
    name = given.pop("session", None) or files.session_id(given.get("kernel"))
    try:
        entry = Entry.model_validate({**given, "session": name, "at": datetime.now(UTC)})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise BadValueError(f"session field {field}: {first['msg'].lower()}") from error
    return entry, files.append(entry, project() / "sessions")


def show_session(name: str = "last") -> list[Entry]:
    """Return the entries of one session of the project.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file holds something else, or there is none at all.
    """
    folder = project() / "sessions"
    if not files.sessions(folder):
        raise SessionError(f"no session was recorded in {folder}; kb triage KERNEL records one")
    return files.read(name, folder)


def list_sessions() -> list[str]:
    """Return the ids of the project's sessions, oldest first."""
    return files.sessions(project() / "sessions")
