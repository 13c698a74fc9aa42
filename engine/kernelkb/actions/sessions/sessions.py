"""Sessions: opened, logged, closed and listed, and the step that follows each command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import ValidationError

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import BadValueError, KbError, NextStep, SessionError
from kernelkb.loading.kernels import find_kernel_folder, find_kernel_folders, load_kernel_folder
from kernelkb.model.base import Record, SessionId
from kernelkb.model.entries.workflow import Workflow
from kernelkb.model.records.measurement import Bench, Build, Profile
from kernelkb.model.records.session import (
    PlanKind,
    PlannedPhase,
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

_ID_DIGITS = 12
_EXAMPLE = "row_softmax"
"""The shipped kernel that is named where a project has none of its own."""

_LAST_PHASE: dict[PlanKind, str | None] = {"baseline": "baseline", "optimize": None}
"""Last phase of a plan; None for all phases."""

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


def choose_subject_kernel(project: Path) -> str | None:
    """Return the kernel to name where none was: the first of the project, else a shipped one.

    One whose kernel.yaml is not finished or not valid stands behind the others.
    """
    folders = find_kernel_folders(project)
    own = sorted(name for name, path in folders.items() if path.is_relative_to(project))
    valid = (name for name in own if _is_valid(folders[name]))
    return next(valid, None) or next(iter(own), _EXAMPLE if _EXAMPLE in folders else None)


def _is_valid(folder: Path) -> bool:
    try:
        load_kernel_folder(folder)
    except (KbError, OSError):
        return False
    return True


def choose_session_id(kernel: str | None, project: Path) -> SessionId:
    """Return an id that is free: the day and the kernel, and a number after the first."""
    first = make_session_id(kernel)
    taken = set(list_session_ids(project / "sessions"))
    numbered = (f"{first}-{number}" for number in range(2, len(taken) + 3))
    return first if first not in taken else next(name for name in numbered if name not in taken)


def step_to_open(kernel: str | None, project: Path) -> NextStep:
    """Return the step that opens a session.

    Args:
        kernel: Its subject; None: one of the project.
        project: The project's root.
    """
    subject = kernel or choose_subject_kernel(project)
    goal = f"make {subject or 'a kernel'} faster"
    given: dict[str, str | None] = {"id": choose_session_id(subject, project), "goal": goal}
    if subject is not None:
        given["kernel"] = subject
    return NextStep("session new", given, "opens a session")


def step_to_begin() -> NextStep:
    """Return how work in this project begins: where the open session stands, or a new session."""
    project = get_project_path()
    if find_open_session(project) is not None:
        return NextStep("session show", {"brief": ""}, "says where work stands")
    return step_to_open(None, project)


def step_after_build(build: Build) -> NextStep:
    """Return what follows a build: the bench, or the build again once its error is corrected."""
    which = {"kernel": build.kernel, "variant": build.variant, "target": build.target}
    if build.error is not None:
        return NextStep("build", which, "compiles it again, once its source is corrected")
    return NextStep("bench", which, "checks and times it")


def step_after_bench(
    bench: Bench, against: str | None = None, workload: str | None = None
) -> NextStep:
    """Return what follows a bench: a triage of the faster variant.

    Args:
        bench: Of a kernel's variant.
        against: The variant that it was timed against, too.
        workload: That was asked for; None: the default.
    """
    which: dict[str, str | None]
    which = {"kernel": bench.kernel, "variant": bench.variant, "target": bench.target}
    if workload is not None:
        which["workload"] = workload
    if bench.has_failed:
        return NextStep("bench", which, "checks it again, once its source is corrected")
    is_worse = bench.verdict == "slower" and against is not None and bench.baseline == against
    kept = against if is_worse and against else bench.variant
    return NextStep("triage", {**which, "variant": kept}, "says what limits it")


def step_after_profile(profile: Profile | Bench, workload: str | None = None) -> NextStep:
    """Return what follows a profile: the recommendation from its record."""
    if isinstance(profile, Bench):
        return step_after_bench(profile, workload=workload)
    if profile.measurement is None:
        which = {"kernel": profile.kernel, "variant": profile.variant, "target": profile.target}
        return NextStep("triage", which, "says what limits it")
    return NextStep("recommend", {"run": profile.measurement[:_ID_DIGITS]}, "names the cause")


def plan_phases(
    workflow: Workflow,
    plan: PlanKind,
    predicted: Mapping[str, tuple[float, float, float]] | None = None,
) -> tuple[PlannedPhase, ...]:
    """Return the phases of a plan, in their order.

    Args:
        workflow: All phases.
        plan: ``baseline`` ends with the trusted baseline measurement; ``optimize`` has all phases.
        predicted: Minutes by phase (low, point, high), learned from earlier sessions.
    """
    names = [phase.id for phase in workflow.phases]
    last = _LAST_PHASE[plan]
    end = names.index(last) + 1 if last in names else len(names)
    return tuple(
        PlannedPhase(
            phase=phase.id,
            gates=tuple(gate.id for gate in phase.gates),
            budget_min=phase.budget_min,
            predicted_min=(predicted or {}).get(phase.id),
        )
        for phase in workflow.phases[:end]
    )


def gate_questions(workflow: Workflow) -> dict[str, str]:
    """Return the question that each gate asks, by its id."""
    return {gate.id: gate.check for phase in workflow.phases for gate in phase.gates}


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
