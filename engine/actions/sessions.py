"""Open, log, close and show sessions: what was done, and what was learnt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import ValidationError

from kernelkb.actions.bench_target import project
from kernelkb.errors import BadValueError, KbError, SessionError
from kernelkb.model.base import Record
from kernelkb.model.session import Entry, PlanKind, Session, SessionId, SessionLine
from kernelkb.record import sessions as files
from kernelkb.record.open_session import begin, current, current_for, end

R = TypeVar("R", bound=Record)

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
_CLOSING = ("went_wrong", "went_right", "pattern_candidates", "cost_usd")


class Opened(NamedTuple):
    """A new session."""

    session: Session
    path: Path
    instead_of: SessionId | None
    """The session that was open until now; it is not closed."""


def new_session(
    name: str, goal: str, plan: PlanKind | None = None, kernel: str | None = None
) -> Opened:
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
    _not_last(name)
    session = _valid(Session, {**given, "opened": datetime.now(UTC)})
    gates: dict[str, str] = {}
    if plan:
        from kernelkb.actions.knowledge import here  # reads all the knowledge: only for a plan
        from kernelkb.actions.plan import gate_questions, planned
        from kernelkb.record.phases import expected

        knowledge = here()
        gates = gate_questions(knowledge.workflow)
        phases = planned(knowledge.workflow, plan, expected(knowledge.learned))
        session = session.model_copy(update={"phases": phases})
    place = project()
    before = current(place)
    path = files.create(session, place / "sessions", gates)
    begin(place, session.session)
    return Opened(session, path, before)


def session_for(kernel: str | None) -> SessionId:
    """Return the session that work on a kernel belongs to now.

    That is the open one, unless it is about another kernel, else today's with that kernel.
    """
    try:
        found = current_for(kernel, project())
    except KbError:  # a mistake in it is no reason to lose what was measured
        found = None
    return found or files.session_id(kernel)


def log_session(what: Mapping[str, Any]) -> tuple[Entry, Path]:
    """Append a retrospective to the project's sessions.

    Args:
        what: Fields of ``kernelkb.model.session.Entry``; ``goal`` is required, ``at`` is now, and
            ``session`` is that of ``session_for`` unless it names another.

    Raises:
        BadValueError: A field is missing, unknown, or holds something else.
        SessionError: The project cannot be written.
    """
    strange = sorted(set(what) - set(_RETROSPECTIVE))
    if strange:
        known = ", ".join(_RETROSPECTIVE)
        raise BadValueError(f"a session has no field {strange[0]!r}; it has {known}")
    given = {key: value for key, value in what.items() if value is not None}
    named = given.pop("session", None)
    now = datetime.now(UTC)
    _not_last(named)
    entry = _valid(Entry, {**given, "session": named or "unnamed", "at": now})
    if named is None:
        entry = entry.model_copy(update={"session": session_for(entry.kernel)})
    return entry, files.append(entry, project() / "sessions")


def close_session(
    name: str | None = None, what: Mapping[str, Any] | None = None
) -> tuple[Entry, Path]:
    """Append the entry that ends a session, and leave it open no longer.

    Args:
        name: Its id; the open one by default.
        what: Lessons and cost; see ``log_session``.

    Raises:
        BadValueError: A field holds something else.
        UnknownNameError: There is no such session.
        SessionError: None is open, or it is closed already, or its file is wrong or cannot be
            written.
    """
    place = project()
    opened = current(place)
    chosen = name or opened
    if chosen is None:
        raise SessionError("no session is open; name one: kb session close ID")
    session = files.read(chosen, place / "sessions")
    if session.closed:
        said = f"session {session.session} is closed already"
        raise SessionError(f"{said}; kb session show {session.session} prints it")
    entry = _closing(session, what or {})
    path = files.append(entry, place / "sessions")
    if opened == session.session:
        end(place)
    return entry, path


def _closing(session: Session, what: Mapping[str, Any]) -> Entry:
    given = {key: what[key] for key in _CLOSING if what.get(key) is not None}
    now = {"session": session.session, "at": datetime.now(UTC), "goal": session.goal}
    return _valid(Entry, {**given, **now, "by": "close", "kernel": session.kernel, "closes": True})


def show_session(name: str = "last") -> Session:
    """Return one session of the project.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Something in its file is wrong, or there is no session at all.
    """
    folder = project() / "sessions"
    if not files.sessions(folder):
        raise SessionError(f"no session was recorded in {folder}; kb triage KERNEL records one")
    return files.read(name, folder)


def list_sessions() -> list[SessionLine]:
    """Return the project's sessions, oldest first; one with a mistake in it too."""
    return list(_lines(project()))


def _lines(place: Path) -> Iterator[SessionLine]:
    folder = place / "sessions"
    now = current(place)
    for name in files.sessions(folder):
        try:
            found = files.read(name, folder)
        except KbError:
            yield SessionLine(session=name, state="unreadable")
            continue
        state: Literal["current", "open", "closed"] = "closed" if found.closed else "open"
        if name == now:
            state = "current"
        yield SessionLine(
            session=name, state=state, kernel=found.kernel, opened=found.opened, goal=found.goal
        )


def _not_last(name: str | None) -> None:
    if name == "last":
        raise BadValueError("session field session: last means the latest one; name its id")


def _valid(model: type[R], given: Mapping[str, Any]) -> R:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise BadValueError(f"session field {field}: {first['msg'].lower()}") from error
