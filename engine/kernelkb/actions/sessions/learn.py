"""Writes ``learned.yaml`` from the recorded sessions, and undoes the last write."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import yaml

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import KbError, KnowledgeError, SessionError, UnknownNameError
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.loading.located import read_yaml
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.learned import LearnedCatalogue
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
from kernelkb.safety.files import replace_file
from kernelkb.safety.paths import find_unread_knowledge, overlay_folder, shipped_folder
from kernelkb.safety.storage import describe_write_cure

HEADER = "# Written by kb lab learn from the sessions, which it names; edit those, not this file.\n"
"""First line of the file."""
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
