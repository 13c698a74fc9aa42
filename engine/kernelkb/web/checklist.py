"""The checklist of a session: ticked by what was recorded, and by what a person says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kernelkb.actions.knowledge.knowledge import load_project_knowledge
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import BadValueError, SessionError
from kernelkb.model.entries.workflow import Precheck, WorkflowGate
from kernelkb.model.records.session import ChecklistMark, Session, SessionEntry, Step
from kernelkb.record.outcomes import STEPS_BY_PHASE, sum_minutes_by_phase
from kernelkb.record.sessions import append_entry, find_open_session, list_session_ids, read_session
from kernelkb.web.site import WebPage

_STEPS_OF_COMMAND = {
    "env": ("environment",),
    "bench": ("check", "bench"),
    "triage": ("check", "bench"),
    "recommend": ("recommend", "gate"),
    "compare": ("compare", "bench"),
}
"""Steps that a command records, by its verb; others record one of their own name."""
_MAX_NOTE = 600


class ChecklistItem(NamedTuple):
    """One thing to check."""

    gate: Precheck | WorkflowGate
    state: str
    """``passed``, ``failed``, ``warning`` or ``open``."""
    by: str
    """What says so: the result of a step, or of a person; empty while it is open."""
    notes: tuple[str, ...]


class ChecklistPhase(NamedTuple):
    """A phase with its items and its time."""

    id: str
    title: str
    goal: str
    items: tuple[ChecklistItem, ...]
    budget_min: float | None
    spent_min: float | None
    """None: no tool logs this phase."""

    @property
    def left(self) -> int:
        """How many items are open or failed."""
        return sum(item.state in ("open", "failed") for item in self.items)


def show_checklist(asked: Mapping[str, str]) -> WebPage:
    """Return the checklist of a session, and its entries.

    Args:
        asked: ``session``: its id; without it the open one. ``mark``: the item whose form is open.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file is wrong.
    """
    project = get_project_path()
    chosen = asked.get("session") or find_open_session(project)
    if chosen is None:
        newest = list_session_ids(project / "sessions")[-5:][::-1]
        values: dict[str, Any] = {"session": None, "newest": newest}
        return WebPage("checklist.html", "Checklist", "checklist", values)
    session = read_session(chosen, project / "sessions")
    phases = list_phases(session)
    now = next((phase for phase in phases if phase.left), None)
    values = {
        "session": session,
        "phases": phases,
        "now": now,
        "marking": asked.get("mark", "")[:120],
    }
    return WebPage("checklist.html", session.session, "checklist", values)


def list_phases(session: Session) -> list[ChecklistPhase]:
    """Return the checks before a session and the phases of the workflow, as far as they are."""
    workflow = load_project_knowledge().workflow
    steps = [step for entry in session.entries for step in entry.steps]
    marks = _gather_marks(session)
    spent = sum_minutes_by_phase(session)
    budgets = {one.phase: one.budget_min for one in session.phases}
    before = tuple(_make_item(gate, steps, marks) for gate in workflow.preflight)
    title, goal = "Before a session", "What must be right before a GPU is used."
    found = [ChecklistPhase("preflight", title, goal, before, None, None)]
    for phase in workflow.phases:
        items = tuple(_make_item(gate, steps, marks) for gate in phase.gates)
        names = STEPS_BY_PHASE.get(phase.id)
        minutes = None if names is None else sum(spent.get(one, 0.0) for one in names)
        budget = budgets.get(phase.id, phase.budget_min)
        found.append(ChecklistPhase(phase.id, phase.title, phase.goal, items, budget, minutes))
    return found


def _gather_marks(session: Session) -> dict[str, list[ChecklistMark]]:
    found: dict[str, list[ChecklistMark]] = {}
    for entry in session.entries:
        for mark in entry.marks:
            found.setdefault(mark.item, []).append(mark)
    return found


def _make_item(
    gate: Precheck | WorkflowGate,
    steps: Iterable[Step],
    marks: Mapping[str, list[ChecklistMark]],
) -> ChecklistItem:
    """Return an item: the newest word of a person counts before the newest recorded step."""
    own = marks.get(gate.id, [])
    said = next((mark.passed for mark in reversed(own) if mark.passed is not None), None)
    notes = tuple(mark.note for mark in own if mark.note)
    if said is not None:
        return ChecklistItem(gate, "passed" if said else "failed", "ticked by hand", notes)
    step = _find_step(gate.command, steps)
    if step is None:
        return ChecklistItem(gate, "open", "", notes)
    state = {"ok": "passed", "warning": "warning", "failure": "failed"}[step.status]
    name = f"{step.name} {step.variant}" if step.variant else step.name
    return ChecklistItem(gate, state, f"{name}: {step.found}", notes)


def _find_step(command: str | None, steps: Iterable[Step]) -> Step | None:
    """Return the newest step that the command of an item records."""
    _, verb, *_ = *(command or "").split(), "", ""
    wanted = _STEPS_OF_COMMAND.get(verb, (verb,))
    found = None
    for step in steps:
        if step.name in wanted:
            found = step
    return found


def mark_item(session: str, item: str, passed: bool | None, note: str) -> None:
    """Append to a session's file that a person ticked an item, or what they note.

    Raises:
        BadValueError: There is no such item, or nothing is said.
        SessionError: The session is not open, or its file cannot be written.
    """
    project = get_project_path()
    known = read_session(session, project / "sessions")
    items = {one.gate.id for phase in list_phases(known) for one in phase.items}
    text = note.strip()[:_MAX_NOTE]
    if item not in items:
        raise BadValueError(f"the checklist has no item {item[:60]!r}")
    if passed is None and not text:
        raise BadValueError("neither ticked nor noted: write a note, or choose passed or failed")
    if known.is_closed:
        raise SessionError(f"session {session} is closed; it gets no marks any more")
    entry = SessionEntry(
        session=known.session,
        at=datetime.now(UTC),
        goal=f"checklist: {item}",
        by="web",
        kernel=known.kernel,
        marks=(ChecklistMark(item=item, passed=passed, note=text or None),),
    )
    append_entry(entry, project / "sessions")
