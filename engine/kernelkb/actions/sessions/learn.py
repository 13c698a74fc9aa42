"""What people and sessions teach: ``learned.yaml`` from the sessions, and the reviews of experts.

The file of a review is part of the project's knowledge as soon as it exists: committing it accepts
the review, deleting it undoes the review.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import yaml

from kernelkb.actions.knowledge.knowledge import find_project_overlay, load_project_knowledge
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.checks import Complaint, find_broken_cases, lint
from kernelkb.decide.derive import complete_metrics
from kernelkb.errors import (
    KbError,
    KnowledgeError,
    Problem,
    SessionError,
    UnknownNameError,
    did_you_mean,
)
from kernelkb.graph.compile import compile_rules
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.loading.located import Loc, Marks, locate_problem, read_yaml
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.learned import (
    AcceptedReview,
    LearnedCatalogue,
    PatternChange,
    ReviewPreview,
)
from kernelkb.model.records.session import Session
from kernelkb.record.learn import (
    IsKnown,
    LearnedChange,
    PatternCandidate,
    diff_learned,
    find_pattern_candidates,
    learn_from_sessions,
)
from kernelkb.record.sessions import list_session_ids, read_session
from kernelkb.render.text.sessions import NO_REVIEWER, format_review_template
from kernelkb.safety.files import replace_file
from kernelkb.safety.paths import find_unread_knowledge, overlay_folder, shipped_folder
from kernelkb.safety.storage import describe_write_cure

HEADER = "# Written by kb lab learn from the sessions, which it names; edit those, not this file.\n"
"""First line of the file."""


class LearnResult(NamedTuple):
    """What the sessions teach, and how it differs from the file of before."""

    file: Path
    learned: LearnedCatalogue
    changes: tuple[LearnedChange, ...]
    candidates: tuple[PatternCandidate, ...]
    was_written: bool


def update_learned_file(
    *, forget: str | None = None, unforget: str | None = None, write: bool = True
) -> LearnResult:
    """Learn from all sessions of the project, and write the file if it changed.

    Args:
        forget: Id of a session to leave out from now on.
        unforget: Id of a forgotten session that counts again.
        write: False computes the result and writes nothing.

    Raises:
        UnknownNameError: There is no such session, or it was not forgotten.
        SessionError: A session is damaged, or the file cannot be written.
        KnowledgeError: The knowledge or ``learned.yaml`` is invalid.
    """
    overlay = overlay_folder(str(get_project_path()))
    knowledge = load_knowledge(
        overlay=Path(overlay) if overlay else None, without=("learned.yaml",)
    )
    path = _locate_learned_file()
    before = _read_learned(path)
    sessions = read_sessions(get_project_path() / "sessions")
    forgotten = _resolve_forgotten(before, [s.session for s in sessions], forget, unforget)
    learned = learn_from_sessions(sessions, make_entry_lookup(knowledge), forgotten)
    text = format_learned_yaml(learned)
    is_same = text == (
        path.read_text(encoding="utf-8")
        if path.is_file()
        else format_learned_yaml(LearnedCatalogue())
    )
    if write and not is_same:
        _write_learned(path, text)
    counted = [session for session in sessions if session.session not in forgotten]
    changes, patterns = diff_learned(before, learned), find_pattern_candidates(counted)
    return LearnResult(path, learned, changes, patterns, write and not is_same)


def undo_learn() -> Path:
    """Restore the file as it was before the last write; a second call undoes the undo.

    Raises:
        SessionError: Nothing was written yet, or the project is not writable.
    """
    path, backup = _locate_learned_file(), _backup_path()
    if not backup.is_file():
        raise SessionError(f"nothing to undo: kb lab learn has not written {path} here yet")
    earlier = backup.read_bytes()
    try:
        _back_up(path, backup)
        if earlier:
            replace_file(path, earlier)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise _make_write_error(path, error) from error
    return path


def make_entry_lookup(knowledge: Knowledge) -> IsKnown:
    """Return a function that tells whether the knowledge has a bottleneck and a fix."""
    bottlenecks = {b.id for b in knowledge.bottlenecks}
    fixes = {fix.id for family in knowledge.families for fix in family.fixes}
    return lambda bottleneck, fix: bottleneck in bottlenecks and fix in fixes


def format_learned_yaml(record: LearnedCatalogue) -> str:
    """Return the text of ``learned.yaml``; equal records give equal text."""
    plain = record.model_dump(mode="json", exclude_defaults=True)
    return HEADER + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)


def read_sessions(folder: Path) -> list[Session]:
    """Return all sessions of a folder."""
    return [read_session(name, folder) for name in list_session_ids(folder)]


def _resolve_forgotten(
    before: LearnedCatalogue, known: list[str], forget: str | None, unforget: str | None
) -> set[str]:
    forgotten = set(before.forgotten)
    if forget is not None and forget not in forgotten:
        if forget not in known:
            raise UnknownNameError("session", forget, known, "session list")
        forgotten.add(forget)
    if unforget is not None:
        if unforget not in forgotten:
            raise UnknownNameError(
                "forgotten session", unforget, forgotten, "learn --dry-run --json"
            )
        forgotten.remove(unforget)
    return forgotten


def _locate_learned_file() -> Path:
    """Return the path of ``learned.yaml``; in a checkout of KernelKB that is the shipped file.

    Raises:
        KbError: The project's folder ``knowledge`` holds YAML files of another program.
    """
    folder = get_project_path() / "knowledge"
    is_ours = overlay_folder(str(get_project_path())) or folder.resolve() == Path(
        shipped_folder("knowledge")
    )
    if find_unread_knowledge(str(get_project_path())):
        raise KbError(f"{folder} is that of another KernelKB; learn with the kb of its source tree")
    if not is_ours and any(folder.rglob("*.yaml")):
        raise KbError(
            f"{folder} holds YAML files that are not KernelKB knowledge; move them elsewhere, "
            "because learned.yaml is written there"
        )
    return folder / "learned.yaml"


def _backup_path() -> Path:
    return get_project_path() / ".kb" / "learned.yaml.before"


def _read_learned(path: Path) -> LearnedCatalogue:
    if not path.is_file():
        return LearnedCatalogue()
    record, _, problems = read_yaml(path, LearnedCatalogue, str(path))
    if record is None:
        raise KnowledgeError(problems)
    return record


def _write_learned(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _back_up(path, _backup_path())
        replace_file(path, text.encode())
    except OSError as error:
        raise _make_write_error(path, error) from error


def _back_up(path: Path, backup: Path) -> None:
    """Copy the file to the backup; write an empty backup when there is no file."""
    backup.parent.mkdir(parents=True, exist_ok=True)
    replace_file(backup, path.read_bytes() if path.is_file() else b"")


def _make_write_error(path: Path, error: OSError) -> SessionError:
    cure = describe_write_cure(error, "run in a project that you may write to")
    return SessionError(f"cannot write {path}: {error.strerror}; {cure}")


class _ReviewFile(NamedTuple):
    """A review file that loaded, and where each part of it stands."""

    shown: str
    review: AcceptedReview
    marks: Marks

    def locate(self, loc: Loc, message: str) -> Problem:
        return locate_problem(self.shown, self.marks, loc, message)


def write_review_template(name: str = "last") -> tuple[str, Path, bool]:
    """Write the review file of a session, unless there is one.

    Returns:
        The session's id, the file, and whether it was written now.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: The session cannot be read, or the file cannot be written.
        KnowledgeError: The knowledge is wrong.
    """
    project = get_project_path()
    session = read_session(name, project / "sessions")
    path = project / "knowledge" / "reviews" / f"{session.session}.yaml"
    if path.exists():
        return session.session, path, False
    rules = load_compiled_rules()
    decisions = [
        (entry, decision, complete_metrics(rules, entry.metrics, entry.device))
        for entry in session.entries
        for decision in entry.decisions
    ]
    today = datetime.now(UTC).date()
    text = format_review_template(session, today, decisions, load_project_knowledge())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError as error:
        cure = describe_write_cure(error, "run in a project that you may write to")
        raise SessionError(f"cannot write {path}: {error.strerror}; {cure}") from error
    return session.session, path, True


def preview_review(name: str = "last") -> ReviewPreview:
    """Return what the review file of a session changes in the knowledge, and its problems.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: The session cannot be read.
        KnowledgeError: The knowledge is wrong even without the file.
    """
    project = get_project_path()
    session = read_session(name, project / "sessions")
    shown = f"knowledge/reviews/{session.session}.yaml"
    review, marks, problems = read_yaml(project / shown, AcceptedReview, shown)
    count = sum(len(entry.decisions) for entry in session.entries)
    preview = ReviewPreview(session=session.session, file=shown, decisions=count)
    if review is None or problems:
        return _with_problems(preview, problems)
    file = _ReviewFile(shown, review, marks)
    preview = preview.model_copy(update={"verdicts": review.verdicts, "breaks": review.breaks})
    try:
        after = load_project_knowledge()
    except KnowledgeError as error:
        _load_without(file)  # raises what is wrong without the file
        return _with_problems(preview, list(error.problems))
    complaints = lint(after)
    problems = [
        *_find_mismatches(file, session, after),
        *_find_new_complaints(file, after, complaints),
    ]
    changes = tuple(change for change in after.changed if change.session == session.session)
    update = {"changes": changes, "checks": not complaints}
    return _with_problems(preview.model_copy(update=update), problems)


def get_threshold_values() -> dict[str, float]:
    """Return the value of each threshold, to print conditions with."""
    return load_knowledge().threshold_values


def _with_problems(preview: ReviewPreview, problems: list[Problem]) -> ReviewPreview:
    return preview.model_copy(update={"problems": tuple(map(str, sorted(problems)))})


def _find_mismatches(
    file: _ReviewFile, session: Session, knowledge: Knowledge
) -> Iterator[Problem]:
    """Yield what is missing in a review file, and what its session does not have."""
    review = file.review
    if review.reviewer == NO_REVIEWER:
        yield file.locate(("reviewer",), "write the name of the reviewer")
    if not (review.verdicts or review.corrections or review.comment):
        yield file.locate((), "nothing is filled in; give a verdict or a correction")
    decisions = {
        (decision.bottleneck, decision.fix, decision.applied_as)
        for entry in session.entries
        for decision in entry.decisions
    }
    known = {
        "bottleneck": {b.id for b in knowledge.bottlenecks},
        "fix": {fix.id for family in knowledge.families for fix in family.fixes},
    }
    for position, verdict in enumerate(review.verdicts):
        if (verdict.bottleneck, verdict.fix, verdict.applied_as) not in decisions:
            message = f"the session did not decide {verdict.bottleneck}/{verdict.fix}"
            variant = f" as {verdict.applied_as}" if verdict.applied_as else ""
            yield file.locate(("verdicts", position), f"{message}{variant}; copy its line")
        names = verdict.should_have_been.split("/") if verdict.should_have_been else ()
        for (kind, ids), name in zip(known.items(), names, strict=False):
            if name not in ids:
                message = f"unknown {kind} {name!r}{did_you_mean(name, ids)}"
                yield file.locate(("verdicts", position, "should_have_been"), message)
    candidates = {
        " ".join(text.split()) for entry in session.entries for text in entry.pattern_candidates
    }
    for position, change in enumerate(review.corrections):
        text = change.candidate if isinstance(change, PatternChange) else None
        if text is not None and " ".join(text.split()) not in candidates:
            near = did_you_mean(text, candidates)
            message = f"the session proposes no pattern {text!r}{near}; leave it out if it is new"
            yield file.locate(("corrections", position, "candidate"), message)


def _find_new_complaints(
    file: _ReviewFile, after: Knowledge, complaints: list[Complaint]
) -> Iterator[Problem]:
    """Yield each complaint of ``kb check`` that the file causes, and each needless exception."""
    breaks = file.review.breaks
    if not (complaints or breaks):
        return
    cases = {case.name: case for case in find_broken_cases(after, compile_rules(after))}
    names = {(case.entry, case.problem): case.name for case in cases.values()}
    old = set(lint(_load_without(file))) if complaints else set()
    for where, text in (complaint for complaint in complaints if complaint not in old):
        name = names.get((where, text))
        cure = f"; if that is meant, put {name!r} under breaks" if name else ""
        yield file.locate(("breaks",), f"{where}: {text}{cure}")
    for position, name in enumerate(breaks):
        if name not in cases:
            near = did_you_mean(name, cases) or "; leave it out"
            yield file.locate(("breaks", position), f"{name!r} is no case that breaks{near}")


def _load_without(file: _ReviewFile) -> Knowledge:
    relative = f"reviews/{file.review.session}.yaml"
    return load_knowledge(overlay=find_project_overlay(), without=(relative,))
