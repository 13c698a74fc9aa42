"""Open, log, close and show sessions: what was done, and what was learnt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import ValidationError

from kernelkb.actions.bench_target import get_project_path
from kernelkb.errors import BadValueError, KbError, NextStep, SessionError
from kernelkb.model.base import Record
from kernelkb.model.session import PlanKind, Session, SessionEntry, SessionId, SessionSummary
from kernelkb.record import sessions as files
from kernelkb.record.open_session import (
    clear_open_session,
    find_open_session,
    find_open_session_for,
    set_open_session,
)

R = TypeVar("R", bound=Record)

_RETROSPECTIVE_FIELDS = (
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
_CLOSING_FIELDS = ("went_wrong", "went_right", "pattern_candidates", "cost_usd")


class OpenedSession(NamedTuple):
    """A new session."""

    session: Session
    path: Path
    previous: SessionId | None
    """The session that was open until now; it is not closed."""


def start_session(
    name: str, goal: str, plan: PlanKind | None = None, kernel: str | None = None
) -> OpenedSession:
    """Write a session's file with its plan, and open it: from now on verbs log into it.

    Args:
        name: Its id, such as a date and the kernel.
        goal: What it is for.
        plan: Which plan to write down, with gates and time budgets; None for none.
        kernel: The one it is about; None for any.

    Raises:
        BadValueError: The id or the kernel cannot be one.
        SessionError: There is such a session, or the project cannot be written.
        KnowledgeError: The project's own workflow is wrong.
    """
    given = {"session": name, "goal": goal, "plan": plan, "kernel": kernel}
    _refuse_last(name)
    session = _validate(Session, {**given, "opened": datetime.now(UTC)})
    gates: dict[str, str] = {}
    if plan:
        from kernelkb.actions.knowledge import (
            load_project_knowledge,
        )  # reads all the knowledge: only for a plan
        from kernelkb.actions.plan import gate_questions, plan_phases
        from kernelkb.record.phases import predict_phase_minutes

        knowledge = load_project_knowledge()
        gates = gate_questions(knowledge.workflow)
        phases = plan_phases(knowledge.workflow, plan, predict_phase_minutes(knowledge.learned))
        session = session.model_copy(update={"phases": phases})
    place = get_project_path()
    before = find_open_session(place)
    path = files.create_session(session, place / "sessions", gates)
    set_open_session(place, session.session)
    return OpenedSession(session, path, before)


def choose_session(kernel: str | None) -> SessionId:
    """Return the session that work on a kernel belongs to now.

    That is the open one, unless it is about another kernel, else today's with that kernel.
    """
    try:
        found = find_open_session_for(kernel, get_project_path())
    except KbError:  # a mistake in it is no reason to lose what was measured
        found = None
    return found or files.make_session_id(kernel)


def log_retrospective(fields: Mapping[str, Any]) -> tuple[SessionEntry, Path]:
    """Append a retrospective to the project's sessions.

    Args:
        fields: Fields of ``kernelkb.model.session.SessionEntry``; ``goal`` is required, ``at`` is
            now, and ``session`` is that of ``session_for`` unless it names another.

    Raises:
        BadValueError: A field is missing, unknown, or holds something else.
        SessionError: The project cannot be written.
    """
    strange = sorted(set(fields) - set(_RETROSPECTIVE_FIELDS))
    if strange:
        known = ", ".join(_RETROSPECTIVE_FIELDS)
        raise BadValueError(f"a session has no field {strange[0]!r}; it has {known}")
    given = {key: value for key, value in fields.items() if value is not None}
    named = given.pop("session", None)
    now = datetime.now(UTC)
    _refuse_last(named)
    entry = _validate(SessionEntry, {**given, "session": named or "unnamed", "at": now})
    if named is None:
        entry = entry.model_copy(update={"session": choose_session(entry.kernel)})
    return entry, files.append_entry(entry, get_project_path() / "sessions")


def close_session(
    name: str | None = None, fields: Mapping[str, Any] | None = None
) -> tuple[SessionEntry, Path]:
    """Append the entry that ends a session, and leave it open no longer.

    Args:
        name: Its id; the open one by default.
        fields: Lessons and cost; see ``log_session``.

    Raises:
        BadValueError: A field holds something else.
        UnknownNameError: There is no such session.
        SessionError: None is open, or it is closed already, or its file is wrong or cannot be
            written.
    """
    place = get_project_path()
    opened = find_open_session(place)
    chosen = name or opened
    if chosen is None:
        raise SessionError("no session is open; name one: kb session close ID")
    session = files.read_session(chosen, place / "sessions")
    if session.is_closed:
        said = f"session {session.session} is closed already"
        raise SessionError(f"{said}; kb session show {session.session} prints it")
    entry = _make_closing_entry(session, fields or {})
    path = files.append_entry(entry, place / "sessions")
    if opened == session.session:
        clear_open_session(place)
    return entry, path


def _make_closing_entry(session: Session, fields: Mapping[str, Any]) -> SessionEntry:
    given = {key: fields[key] for key in _CLOSING_FIELDS if fields.get(key) is not None}
    now = {"session": session.session, "at": datetime.now(UTC), "goal": session.goal}
    return _validate(
        SessionEntry, {**given, **now, "by": "close", "kernel": session.kernel, "closes": True}
    )


def load_session(name: str = "last") -> Session:
    """Return one session of the project.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Something in its file is wrong, or there is no session at all.
    """
    folder = get_project_path() / "sessions"
    if not files.list_session_ids(folder):
        records_one = NextStep("triage", {"kernel": None}, "records one")
        raise SessionError(f"no session was recorded in {folder}", next_step=records_one)
    return files.read_session(name, folder)


def list_sessions() -> list[SessionSummary]:
    """Return the project's sessions, oldest first; one with a mistake in it too."""
    return list(_iter_lines(get_project_path()))


def _iter_lines(place: Path) -> Iterator[SessionSummary]:
    folder = place / "sessions"
    now = find_open_session(place)
    for name in files.list_session_ids(folder):
        try:
            found = files.read_session(name, folder)
        except KbError:
            yield SessionSummary(session=name, state="unreadable")
            continue
        state: Literal["current", "open", "closed"] = "closed" if found.is_closed else "open"
        if name == now:
            state = "current"
        yield SessionSummary(
            session=name, state=state, kernel=found.kernel, opened=found.opened, goal=found.goal
        )


def _refuse_last(name: str | None) -> None:
    if name == "last":
        raise BadValueError("session field session: last means the latest one; name its id")


def _validate(model: type[R], given: Mapping[str, Any]) -> R:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise BadValueError(f"session field {field}: {first['msg'].lower()}") from error
