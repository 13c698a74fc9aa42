"""A filled-in form → the review that it is, and what the knowledge would be with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from kernelkb.checks.cases import find_broken_cases
from kernelkb.checks.lint import Complaint, lint
from kernelkb.errors import BadValueError, KnowledgeError, Problem, SessionError, did_you_mean
from kernelkb.graph.compile import compile_rules
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.loading.located import Loc, Marks, locate_problem
from kernelkb.loading.references import LoadedFile
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.review import (
    AcceptedReview,
    Correction,
    PatternChange,
    Review,
    ReviewForm,
    ReviewPreview,
)
from kernelkb.model.session import Decision, SessionEntry
from kernelkb.record.review_form import ParsedForm, parse_review_form
from kernelkb.record.reviewed import review_relative_path


class ReviewAuthor(NamedTuple):
    """Who reviews, and when."""

    reviewer: str
    day: date


class FormValidation(NamedTuple):
    """A form as it was read."""

    review: AcceptedReview
    outlook: ReviewPreview
    problems: list[Problem]


def validate_form(
    session: str,
    entries: tuple[SessionEntry, ...],
    form: Path,
    author: ReviewAuthor,
    overlay: Path | None,
) -> FormValidation:
    """Read a form and try the knowledge with it. Writes nothing.

    Args:
        session: The session's id.
        entries: Of the session.
        form: The form's file.
        author: Who fills it in.
        overlay: The project's own knowledge, None where it has none.

    Raises:
        BadValueError: The reviewer's name is none.
        KnowledgeError: The knowledge is wrong without the form.
    """
    shown = _display_path(form)
    made = tuple(one for entry in entries for one in entry.decisions)
    read = parse_review_form(_read_form(form), shown)
    before = load_knowledge(overlay=overlay, replacements={review_relative_path(session): None})
    problems = read.problems or [*_find_form_problems(read, session, entries, made, before, shown)]
    review = _make_review(read.form, session, made, author)
    outlook = ReviewPreview(
        session=session, form=shown, decisions=len(made), verdicts=review.verdicts
    )
    if problems:
        return _make_validation(review, outlook, problems)
    marks = _map_marks(read)
    file = LoadedFile(review_relative_path(session), shown, review, marks, own=True)
    try:
        after = load_knowledge(overlay=overlay, replacements={file.path: file})
    except KnowledgeError as error:
        return _make_validation(review, outlook, list(error.problems))
    return _compare_knowledge(review, outlook, file, before, after)


def _compare_knowledge(
    review: AcceptedReview,
    outlook: ReviewPreview,
    file: LoadedFile,
    before: Knowledge,
    after: Knowledge,
) -> FormValidation:
    """Return what a form changes in the knowledge, and what is wrong with it since."""
    changes = tuple(change for change in after.changed if change.session == outlook.session)
    complaints = lint(after)
    outlook = outlook.model_copy(
        update={"changes": changes, "breaks": review.breaks, "checks": not complaints}
    )
    return _make_validation(
        review, outlook, list(_find_new_complaints(file, before, after, complaints))
    )


def _make_validation(
    review: AcceptedReview, outlook: ReviewPreview, problems: list[Problem]
) -> FormValidation:
    said = tuple(str(problem) for problem in sorted(problems))
    return FormValidation(review, outlook.model_copy(update={"problems": said}), problems)


def _find_form_problems(
    read: ParsedForm,
    session: str,
    entries: tuple[SessionEntry, ...],
    made: tuple[Decision, ...],
    knowledge: Knowledge,
    shown: str,
) -> Iterator[Problem]:
    """Yield what is wrong with a form by itself, beside this session."""
    form = read.form
    if form.session != session:
        yield locate_problem(
            shown, read.marks, (), f"is the form of {form.session!r}, not of {session!r}"
        )
    if not _is_filled_in(form):
        yield locate_problem(
            shown, read.marks, (), "nothing is filled in; give a verdict or a correction"
        )
    pairs = {"bottleneck": {b.id for b in knowledge.bottlenecks}}
    pairs["fix"] = {fix.id for family in knowledge.families for fix in family.fixes}
    for position, judgement in enumerate(form.judgements):
        place: Loc = ("judgements", position)
        if judgement.decision > len(made):
            said = f"the session has {len(made)} decisions; leave the number as it was written"
            yield locate_problem(shown, read.marks, (*place, "decision"), said)
        names = judgement.should_have_been.split("/") if judgement.should_have_been else ()
        for (kind, known), name in zip(pairs.items(), names, strict=False):
            if name not in known:
                said = f"unknown {kind} {name!r}{did_you_mean(name, known)}"
                yield locate_problem(shown, read.marks, (*place, "should_have_been"), said)
    candidates = {" ".join(one.split()) for entry in entries for one in entry.pattern_candidates}
    for place, change in _iter_corrections(form):
        named = change.candidate if isinstance(change, PatternChange) else None
        if named is not None and " ".join(named.split()) not in candidates:
            near = did_you_mean(named, candidates)
            said = f"the session proposes no pattern {named!r}{near}; leave it out if it is new"
            yield locate_problem(shown, read.marks, (*place, "candidate"), said)


def _is_filled_in(form: ReviewForm) -> bool:
    judged = any(j.verdict or j.corrections or j.comment for j in form.judgements)
    return judged or bool(form.remarks.corrections or form.remarks.comment)


def _iter_corrections(form: ReviewForm) -> Iterator[tuple[Loc, Correction]]:
    """Yield the corrections in the order of the review, with their places in the form."""
    for position, judgement in enumerate(form.judgements):
        for number, change in enumerate(judgement.corrections):
            yield ("judgements", position, "corrections", number), change
    for number, change in enumerate(form.remarks.corrections):
        yield ("remarks", "corrections", number), change


def _map_marks(read: ParsedForm) -> Marks:
    """Return the place of each part of the review, which is one in the form."""
    places: dict[Loc, Loc] = {("remarks", "breaks"): ("breaks",)}
    for number, (place, _) in enumerate(_iter_corrections(read.form)):
        places[place] = ("corrections", number)
    return {
        (*new, *loc[len(old) :]): mark
        for loc, mark in read.marks.items()
        for old, new in places.items()
        if loc[: len(old)] == old
    }


def _make_review(
    form: ReviewForm, session: str, made: tuple[Decision, ...], author: ReviewAuthor
) -> AcceptedReview:
    try:
        verdicts = tuple(
            Review(
                bottleneck=made[one.decision - 1].bottleneck,
                fix=made[one.decision - 1].fix,
                applied_as=made[one.decision - 1].applied_as,
                verdict=one.verdict,
                should_have_been=one.should_have_been,
                reviewer=author.reviewer,
                why=one.why,
                comment=one.comment,
            )
            for one in form.judgements
            if one.verdict and one.decision <= len(made)
        )
        return AcceptedReview(
            session=session,
            reviewer=author.reviewer,
            date=author.day,
            verdicts=verdicts,
            corrections=tuple(change for _, change in _iter_corrections(form)),
            breaks=form.remarks.breaks,
            comment=form.remarks.comment,
        )
    except ValidationError as error:
        said = "a name is one line of at most 80 characters"
        raise BadValueError(f"--reviewer {author.reviewer!r} is no name; {said}") from error


def _find_new_complaints(
    file: LoadedFile, before: Knowledge, after: Knowledge, complaints: list[Complaint]
) -> Iterator[Problem]:
    """Yield what ``kb check`` would say with the form and does not say without it."""
    review = file.record
    breaks = review.breaks if isinstance(review, AcceptedReview) else ()
    cases = {case.name: case for case in find_broken_cases(after, compile_rules(after))}
    names = {(case.entry, case.problem): case.name for case in cases.values()}
    old = set(lint(before))
    for where, text in (one for one in complaints if one not in old):
        name = names.get((where, text))
        cure = f"; if that is meant, put {name!r} under breaks" if name else ""
        yield locate_problem(file.display_path, file.marks, ("breaks",), f"{where}: {text}{cure}")
    for position, name in enumerate(breaks):
        if name not in cases:
            near = did_you_mean(name, cases) or "; leave it out"
            said = f"{name!r} is no case that would break{near}"
            yield locate_problem(file.display_path, file.marks, ("breaks", position), said)


def _read_form(form: Path) -> str:
    try:
        return form.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SessionError(f"{form} is no form: {error}; kb session submit writes one") from error


def _display_path(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)
