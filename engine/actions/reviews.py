"""An expert's word on a session: a form, what accepting it would change, accepting, undoing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.bench_target import get_project_path
from kernelkb.actions.knowledge import find_project_overlay, load_project_knowledge
from kernelkb.actions.reviewing import FormValidation, ReviewAuthor, validate_form
from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.decide.derive import complete_metrics
from kernelkb.errors import KnowledgeError, SessionError
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.loading.located import load_yaml
from kernelkb.model.review import AcceptedReview, Judgement, ReviewForm, ReviewPreview
from kernelkb.model.session import SessionEntry
from kernelkb.record import reviewed
from kernelkb.record.review_form import format_review_form, is_unmodified
from kernelkb.record.sessions import list_session_ids
from kernelkb.render.reviews import build_prose

_PLACEHOLDER_REVIEWER = "nobody yet"


class FormSubmission(NamedTuple):
    """A form, and whether it was written now."""

    form: Path
    is_new: bool


def write_review_form(name: str = "last") -> FormSubmission:
    """Write the form in which an expert reviews a session.

    A form that nobody has filled in is written anew; one that somebody has begun stays.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file holds something else, or the form was filled in.
        KnowledgeError: The knowledge is wrong.
    """
    session, entries = reviewed.read_session_entries(name, _sessions_folder())
    path = reviewed.form_path(session, _sessions_folder())
    text = _generate_form(session, entries)
    if path.exists():
        before = path.read_text(encoding="utf-8")
        if before == text:
            return FormSubmission(path, False)
        if not is_unmodified(before):
            raise SessionError(
                f"{path} was filled in; kb session review {session} checks it, and without "
                "the file a new one is written"
            )
    reviewed.write_file(path, text)
    return FormSubmission(path, True)


def preview_review(name: str = "last") -> ReviewPreview:
    """Say what accepting a session's form would change. Writes nothing.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file holds something else, or it has no form.
        KnowledgeError: The knowledge is wrong without the form.
    """
    session, entries = reviewed.read_session_entries(name, _sessions_folder())
    return _validate_session_form(session, entries, _PLACEHOLDER_REVIEWER).outlook


def accept_review(name: str = "last", *, reviewer: str) -> ReviewPreview:
    """Make a session's form part of the project's knowledge: all of it, or nothing.

    What was accepted of the same session before is replaced; the same form changes nothing.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file holds something else, it has no form, or nothing can be written.
        BadValueError: The reviewer's name is none.
        KnowledgeError: The form is wrong, or the knowledge would be with it.
    """
    session, entries = reviewed.read_session_entries(name, _sessions_folder())
    knowledge = _knowledge_folder()
    with reviewed.lock_reviews(knowledge):
        found = _validate_session_form(session, entries, reviewer)
        if found.problems:
            raise KnowledgeError(found.problems)
        if found.review != _load_accepted_review(
            session
        ):  # the file's coming to be is what makes it count
            reviewed.write_review(found.review, knowledge)
        reviewed.append_review_entry(_make_entry(found.review, entries), _sessions_folder())
    return found.outlook


def undo_review(name: str = "last") -> Path:
    """Take a session's accepted review out of the knowledge and out of the session.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: No review of it was accepted, or something cannot be written.
        KnowledgeError: Other knowledge of the project needs what it brought.
    """
    folder, knowledge = _sessions_folder(), _knowledge_folder()
    session = _resolve_session_id(name)
    relative = reviewed.review_relative_path(session)
    with reviewed.lock_reviews(knowledge):
        if not (knowledge / relative).exists():
            raise SessionError(f"no review of {session} was accepted; nothing to take back")
        _require_loadable_without(relative)
        if session in list_session_ids(folder):
            reviewed.remove_review_entry(session, folder)
        reviewed.remove_review(session, knowledge)
    return knowledge / relative


def _generate_form(session: str, entries: tuple[SessionEntry, ...]) -> str:
    made = [(entry, one) for entry in entries for one in entry.decisions]
    program = load_compiled_rules()
    valued = [(e, one, complete_metrics(program, e.metrics, e.device)) for e, one in made]
    form = ReviewForm(
        session=session,
        judgements=tuple(Judgement(decision=number) for number, _ in enumerate(made, 1)),
    )
    return format_review_form(form, build_prose(session, entries, valued, load_project_knowledge()))


def _validate_session_form(
    session: str, entries: tuple[SessionEntry, ...], reviewer: str
) -> FormValidation:
    before = _load_accepted_review(session)
    form = reviewed.form_path(session, _sessions_folder())
    if not form.exists():
        raise SessionError(f"{session} has no form; kb session submit {session} writes it")
    by = ReviewAuthor(reviewer, before.date if before else datetime.now(UTC).date())
    return validate_form(session, entries, form, by, find_project_overlay())


def _load_accepted_review(session: str) -> AcceptedReview | None:
    path = _knowledge_folder() / reviewed.review_relative_path(session)
    try:
        return load_yaml(path, AcceptedReview) if path.exists() else None
    except KnowledgeError:
        return None  # edited by hand until it was none any more; it is written anew


def _make_entry(review: AcceptedReview, entries: tuple[SessionEntry, ...]) -> SessionEntry:
    kernel = next((entry.kernel for entry in entries if entry.kernel), None)
    return SessionEntry(
        session=review.session,
        at=datetime.now(UTC),
        goal=f"review by {review.reviewer}",
        by=reviewed.REVIEW_VERB,
        kernel=kernel,
        reviews=review.verdicts,
    )


def get_threshold_values() -> dict[str, float]:
    """Return the value of each threshold, for conditions in words."""
    return {t.id: t.value for t in load_project_knowledge().thresholds.thresholds}


def _resolve_session_id(name: str) -> str:
    """Return a session's id; its file may be gone, as long as its review is there."""
    if name in {path.stem for path in (_knowledge_folder() / "reviews").glob("*.yaml")}:
        return name
    return reviewed.read_session_entries(name, _sessions_folder())[0]


def _require_loadable_without(relative: str) -> None:
    try:
        load_knowledge(overlay=find_project_overlay(), replacements={relative: None})
    except KnowledgeError:
        load_knowledge(
            overlay=find_project_overlay()
        )  # wrong with it as well: then it is not to blame
        raise


def _sessions_folder() -> Path:
    return get_project_path() / "sessions"


def _knowledge_folder() -> Path:
    return get_project_path() / "knowledge"
