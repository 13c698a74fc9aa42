"""An expert's word on a session: a form, what accepting it would change, accepting, undoing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.bench_target import project
from kernelkb.actions.knowledge import here, overlay
from kernelkb.actions.reviewing import By, Examined, examine
from kernelkb.actions.rules_cache import decision_program
from kernelkb.decide.derive import complete
from kernelkb.errors import KnowledgeError, SessionError
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.loading.located import load
from kernelkb.model.review import AcceptedReview, Form, Judgement, Outlook
from kernelkb.model.session import Entry
from kernelkb.record import reviewed
from kernelkb.record.review_form import dump, untouched
from kernelkb.record.sessions import sessions as session_ids
from kernelkb.render.reviews import prose

_UNNAMED = "nobody yet"


class Submitted(NamedTuple):
    """A form, and whether it was written now."""

    form: Path
    written: bool


def submit(name: str = "last") -> Submitted:
    """Write the form in which an expert reviews a session.

    A form that nobody has filled in is written anew; one that somebody has begun stays.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file holds something else, or the form was filled in.
        KnowledgeError: The knowledge is wrong.
    """
    session, entries = reviewed.sitting(name, _sessions())
    path = reviewed.form_path(session, _sessions())
    text = _form(session, entries)
    if path.exists():
        before = path.read_text(encoding="utf-8")
        if before == text:
            return Submitted(path, False)
        if not untouched(before):
            raise SessionError(
                f"{path} was filled in; kb session review {session} checks it, and without "
                "the file a new one is written"
            )
    reviewed.write_file(path, text)
    return Submitted(path, True)


def review(name: str = "last") -> Outlook:
    """Say what accepting a session's form would change. Writes nothing.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file holds something else, or it has no form.
        KnowledgeError: The knowledge is wrong without the form.
    """
    session, entries = reviewed.sitting(name, _sessions())
    return _examined(session, entries, _UNNAMED).outlook


def accept(name: str = "last", *, reviewer: str) -> Outlook:
    """Make a session's form part of the project's knowledge: all of it, or nothing.

    What was accepted of the same session before is replaced; the same form changes nothing.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file holds something else, it has no form, or nothing can be written.
        BadValueError: The reviewer's name is none.
        KnowledgeError: The form is wrong, or the knowledge would be with it.
    """
    session, entries = reviewed.sitting(name, _sessions())
    knowledge = _knowledge()
    with reviewed.held(knowledge):
        found = _examined(session, entries, reviewer)
        if found.problems:
            raise KnowledgeError(found.problems)
        if found.review != _accepted(session):  # the file's coming to be is what makes it count
            reviewed.write_review(found.review, knowledge)
        reviewed.note(_entry(found.review, entries), _sessions())
    return found.outlook


def undo(name: str = "last") -> Path:
    """Take a session's accepted review out of the knowledge and out of the session.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: No review of it was accepted, or something cannot be written.
        KnowledgeError: Other knowledge of the project needs what it brought.
    """
    folder, knowledge = _sessions(), _knowledge()
    session = _session_or_review(name)
    relative = reviewed.relative(session)
    with reviewed.held(knowledge):
        if not (knowledge / relative).exists():
            raise SessionError(f"no review of {session} was accepted; nothing to take back")
        _still_loads_without(relative)
        if session in session_ids(folder):
            reviewed.unnote(session, folder)
        reviewed.remove_review(session, knowledge)
    return knowledge / relative


def _form(session: str, entries: tuple[Entry, ...]) -> str:
    made = [(entry, one) for entry in entries for one in entry.decisions]
    program = decision_program()
    valued = [(e, one, complete(program, e.metrics, e.device)) for e, one in made]
    form = Form(
        session=session,
        judgements=tuple(Judgement(decision=number) for number, _ in enumerate(made, 1)),
    )
    return dump(form, prose(session, entries, valued, here()))


def _examined(session: str, entries: tuple[Entry, ...], reviewer: str) -> Examined:
    before = _accepted(session)
    form = reviewed.form_path(session, _sessions())
    if not form.exists():
        raise SessionError(f"{session} has no form; kb session submit {session} writes it")
    by = By(reviewer, before.date if before else datetime.now(UTC).date())
    return examine(session, entries, form, by, overlay())


def _accepted(session: str) -> AcceptedReview | None:
    path = _knowledge() / reviewed.relative(session)
    try:
        return load(path, AcceptedReview) if path.exists() else None
    except KnowledgeError:
        return None  # edited by hand until it was none any more; it is written anew


def _entry(review: AcceptedReview, entries: tuple[Entry, ...]) -> Entry:
    kernel = next((entry.kernel for entry in entries if entry.kernel), None)
    return Entry(
        session=review.session,
        at=datetime.now(UTC),
        goal=f"review by {review.reviewer}",
        by=reviewed.BY,
        kernel=kernel,
        reviews=review.verdicts,
    )


def limits() -> dict[str, float]:
    """Return the value of each threshold, for conditions in words."""
    return {t.id: t.value for t in here().thresholds.thresholds}


def _session_or_review(name: str) -> str:
    """Return a session's id; its file may be gone, as long as its review is there."""
    if name in {path.stem for path in (_knowledge() / "reviews").glob("*.yaml")}:
        return name
    return reviewed.sitting(name, _sessions())[0]


def _still_loads_without(relative: str) -> None:
    try:
        load_knowledge(overlay=overlay(), instead={relative: None})
    except KnowledgeError:
        load_knowledge(overlay=overlay())  # wrong with it as well: then it is not to blame
        raise


def _sessions() -> Path:
    return project() / "sessions"


def _knowledge() -> Path:
    return project() / "knowledge"
