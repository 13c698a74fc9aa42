"""Opens, logs, closes and lists the sessions of a project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import ValidationError

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.sessions.follow_steps import step_to_open
from kernelkb.errors import BadValueError, KbError, NextStep, SessionError
from kernelkb.loading.kernels import find_kernel_folder
from kernelkb.model.base import Record, SessionId
from kernelkb.model.records.session import (
    PlanKind,
    Session,
    SessionEntry,
    SessionOutcome,
    SessionSummary,
)
from kernelkb.record.outcomes import compute_session_outcomes
from kernelkb.record.sessions import (
    append_entry,
    clear_open_session,
    create_session,
    find_open_session,
    find_open_session_for,
    list_session_ids,
    make_session_id,
    read_session,
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
    """A new session, and the one that it replaces as the open session."""

    session: Session
    path: Path
    previous: SessionId | None
    """Id of the session that was open before; it stays unclosed."""


def start_session(
    name: str,
    goal: str,
    plan: PlanKind | None = None,
    kernel: str | None = None,
    budget: Mapping[str, float] | None = None,
) -> OpenedSession:
    """Write a session's file with its plan, and open it: from now on commands log to it.

    Args:
        name: Its id, such as a date and the kernel.
        goal: One sentence for people.
        plan: Plan to write into the file, with gates and time budgets; None for no plan.
        kernel: The kernel of the session, or its path; None for any.
        budget: Fields of ``SessionBudget``.

    Raises:
        BadValueError: The id is not a valid name.
        UnknownNameError: There is no such kernel; nothing was written.
        SessionError: The session exists, or the project is not writable.
        KnowledgeError: The project's workflow is invalid.
    """
    _refuse_last(name)
    about = _find_kernel_name(kernel)
    given = {"session": name, "goal": goal, "plan": plan, "kernel": about, "budget": budget}
    session = _validate(Session, {**given, "opened": datetime.now(UTC)})
    session, gates = _add_plan(session, plan) if plan else (session, {})
    project = get_project_path()
    previous = find_open_session(project)
    path = create_session(session, project / "sessions", gates)
    set_open_session(project, session.session)
    return OpenedSession(session, path, previous)


def _add_plan(session: Session, plan: PlanKind) -> tuple[Session, dict[str, str]]:
    """Return the session with its phases, and the question of each gate."""
    # These read all of the knowledge, which takes half a second.
    from kernelkb.actions.knowledge.knowledge import load_project_knowledge
    from kernelkb.actions.project.plan import gate_questions, plan_phases
    from kernelkb.record.outcomes import predict_phase_minutes

    knowledge = load_project_knowledge()
    phases = plan_phases(knowledge.workflow, plan, predict_phase_minutes(knowledge.learned))
    return session.model_copy(update={"phases": phases}), gate_questions(knowledge.workflow)


def choose_session(kernel: str | None) -> SessionId:
    """Return the id of the session that work on a kernel belongs to.

    That is the open session, unless it is about another kernel; else today's with this kernel.
    """
    try:
        session = find_open_session_for(kernel, get_project_path())
    except KbError:  # a damaged open session must not lose a measurement
        session = None
    return session or make_session_id(kernel)


def explain_unused_session() -> str | None:
    """Return why entries do not go to the open session: its file is damaged. None otherwise."""
    try:
        find_open_session_for(None, get_project_path())
    except KbError as error:
        return f"not to the open session, whose file is damaged: {error}"
    return None


def log_retrospective(fields: Mapping[str, Any]) -> tuple[SessionEntry, Path]:
    """Append a retrospective to the project's sessions.

    Args:
        fields: Fields of ``model.records.session.SessionEntry``; ``goal`` is required, ``at`` is
            now, and ``session`` is by default that of ``choose_session``.

    Raises:
        BadValueError: A field is missing, unknown or invalid.
        UnknownNameError: There is no such kernel; nothing was written.
        SessionError: The project is not writable.
    """
    unknown = sorted(set(fields) - set(_RETROSPECTIVE_FIELDS))
    if unknown:
        known = ", ".join(_RETROSPECTIVE_FIELDS)
        raise BadValueError(f"a session has no field {unknown[0]!r}; it has {known}")
    given = {key: value for key, value in fields.items() if value is not None}
    if kernel := _find_kernel_name(given.get("kernel")):
        given["kernel"] = kernel
    named = given.pop("session", None)
    now = datetime.now(UTC)
    _refuse_last(named)
    entry = _validate(SessionEntry, {**given, "session": named or "unnamed", "at": now})
    if named is None:
        entry = entry.model_copy(update={"session": choose_session(entry.kernel)})
    return entry, append_entry(entry, get_project_path() / "sessions")


def close_session(
    name: str | None = None, fields: Mapping[str, Any] | None = None
) -> tuple[SessionEntry, Path]:
    """Append the entry that ends a session, and unset the open session if it is that one.

    Args:
        name: Its id; the open one by default.
        fields: Lessons and cost; see ``log_retrospective``.

    Raises:
        BadValueError: A field is invalid.
        UnknownNameError: There is no such session.
        SessionError: No session is open, or it is closed already, or its file is invalid or not
            writable.
    """
    project = get_project_path()
    opened = find_open_session(project)
    chosen = name or opened
    if chosen is None:
        raise SessionError(
            "no session is open", next_step=NextStep("session list", {}, "lists all")
        )
    session = read_session(chosen, project / "sessions")
    if session.is_closed:
        prints_it = NextStep("session show", {"id": session.session}, "prints it")
        raise SessionError(f"session {session.session} is closed already", next_step=prints_it)
    entry = _make_closing_entry(session, fields or {})
    path = append_entry(entry, project / "sessions")
    if opened == session.session:
        clear_open_session(project)
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
        SessionError: Its file is invalid, or there is no session at all.
    """
    folder = get_project_path() / "sessions"
    if not list_session_ids(folder):
        opens_one = step_to_open(None, get_project_path())
        raise SessionError(f"no session was recorded in {folder}", next_step=opens_one)
    return read_session(name, folder)


def compute_session_metrics(name: str = "last") -> SessionOutcome:
    """Return the success metrics of a session.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file is invalid.
    """
    return compute_session_outcomes(load_session(name))


def list_sessions() -> list[SessionSummary]:
    """Return the project's sessions, oldest first; an invalid file is listed as unreadable."""
    return list(_iter_summaries(get_project_path()))


def _iter_summaries(project: Path) -> Iterator[SessionSummary]:
    folder = project / "sessions"
    open_session = find_open_session(project)
    for name in list_session_ids(folder):
        try:
            session = read_session(name, folder)
        except KbError:
            yield SessionSummary(session=name, state="unreadable")
            continue
        state: Literal["current", "open", "closed"] = "closed" if session.is_closed else "open"
        if name == open_session:
            state = "current"
        yield SessionSummary(
            session=name,
            state=state,
            kernel=session.kernel,
            opened=session.opened,
            goal=session.goal,
        )


def _find_kernel_name(kernel: str | None) -> str | None:
    """Return the name of a kernel of the project; None for none."""
    return find_kernel_folder(kernel, get_project_path()).name if kernel else None


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
