"""Sessions → the file ``learned.yaml``, and back again."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

from kernelkb.actions.bench_target import get_project_path
from kernelkb.decide.parse_metric import find_device
from kernelkb.errors import KbError, KnowledgeError, SessionError, UnknownNameError
from kernelkb.graph.device_facts import index_device_names
from kernelkb.loading.kernels import find_kernel_folders, load_kernel
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.loading.located import read_yaml as read_record
from kernelkb.model.base import GainKind
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.learned import LearnedCatalogue
from kernelkb.model.session import Decision, Session, SessionEntry
from kernelkb.model.threshold import Realization
from kernelkb.record import sessions as files
from kernelkb.record.learn import learn_from_sessions
from kernelkb.record.learned_diff import LearnedChange, diff_learned
from kernelkb.record.learning_cases import GainKindLookup
from kernelkb.record.pattern_candidates import PatternCandidate, find_pattern_candidates
from kernelkb.safety.paths import overlay_folder, shipped_folder

HEADER = "# Written by kb learn from the sessions, which it names; edit those, not this file.\n"


class LearnResult(NamedTuple):
    """What the sessions teach, next to what the file said before."""

    file: Path
    learned: LearnedCatalogue
    changes: tuple[LearnedChange, ...]
    candidates: tuple[PatternCandidate, ...]
    was_written: bool


def update_learned_file(
    *, forget: str | None = None, unforget: str | None = None, write: bool = True
) -> LearnResult:
    """Learn from all sessions of the project again, and write the file if anything is new.

    Args:
        forget: A session to leave out from now on.
        unforget: A session that counts again.
        write: Whether to write at all.

    Raises:
        UnknownNameError: There is no such session, or it was not forgotten.
        SessionError: A session is damaged, or the file cannot be written.
        KnowledgeError: The knowledge is wrong, or the file is no record of what was learned.
    """
    own = overlay_folder(str(get_project_path()))
    knowledge = load_knowledge(
        overlay=Path(own) if own else None, replacements={"learned.yaml": None}
    )
    path = _locate_learned_file()
    before = _read_learned(path)
    everything = read_sessions(get_project_path() / "sessions", knowledge)
    out = _resolve_forgotten(before, [one.session for one in everything], forget, unforget)
    found = learn_from_sessions(
        everything, _get_priors(knowledge), make_gain_kind_lookup(knowledge), out
    )
    text = format_learned_yaml(found)
    same = text == (
        path.read_text(encoding="utf-8")
        if path.is_file()
        else format_learned_yaml(LearnedCatalogue())
    )
    if write and not same:
        _write_learned(path, text)
    counted = [one for one in everything if one.session not in out]
    changes, patterns = diff_learned(before, found), find_pattern_candidates(counted)
    return LearnResult(path, found, changes, patterns, write and not same)


def undo_learn() -> Path:
    """Put back the file as it was before it was last written; once more puts this one back.

    Raises:
        SessionError: Nothing was written yet, or the project cannot be written.
    """
    path, kept = _locate_learned_file(), _backup_path()
    if not kept.is_file():
        raise SessionError(f"nothing to undo: kb learn has not written {path} here yet")
    earlier = kept.read_bytes()
    try:
        _back_up(path, kept)
        if earlier:
            _replace_file(path, earlier)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise _make_write_error(path, error) from error
    return path


def make_gain_kind_lookup(knowledge: Knowledge) -> GainKindLookup:
    """Return what says of which kind the gain of a bottleneck and a fix is."""
    gains: dict[str, GainKind] = {b.id: b.gain.kind for b in knowledge.bottlenecks if b.gain}
    fixes = {fix.id for family in knowledge.families for fix in family.fixes}
    return lambda bottleneck, fix: gains.get(bottleneck) if fix in fixes else None


def format_learned_yaml(record: LearnedCatalogue) -> str:
    """Return the text of the file; the same for the same lessons."""
    plain = record.model_dump(mode="json", exclude_defaults=True)
    return HEADER + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)


def read_sessions(folder: Path, knowledge: Knowledge) -> list[Session]:
    """Return all sessions of a folder, with what entries of earlier versions left unsaid."""
    found = [files.read_session(name, folder) for name in files.list_session_ids(folder)]
    return [
        one.model_copy(update={"entries": tuple(complete_entry(e, knowledge) for e in one.entries)})
        for one in found
    ]


def complete_entry(entry: SessionEntry, knowledge: Knowledge) -> SessionEntry:
    """Return an entry with its compute capability, where it only names its GPU.

    One that does not say either what its predictions took for granted is older than the field
    for what was changed together: then the variant's own list of fixes says it.
    """
    applied = {d.applied_as for d in entry.decisions if d.applied_as and d.calibration is None}
    if applied and entry.kernel in find_kernel_folders(get_project_path()):
        variants = load_kernel(entry.kernel, get_project_path()).kernel.variants
        fixes = {v.id: v.applies for v in variants if v.target == entry.target}
        entry = entry.model_copy(
            update={"decisions": tuple(_complete_decision(d, fixes) for d in entry.decisions)}
        )
    if entry.cc or entry.target != "cuda":
        return entry
    device = entry.device or find_device(index_device_names(knowledge), entry.machine or "")
    found = next((d.cc for d in knowledge.devices.devices if d.id == device), None)
    return entry.model_copy(update={"cc": found}) if found else entry


def _complete_decision(decision: Decision, fixes: Mapping[str, tuple[str, ...]]) -> Decision:
    if decision.together or decision.calibration is not None:
        return decision
    others = fixes.get(decision.applied_as or "", ())
    return decision.model_copy(update={"together": tuple(f for f in others if f != decision.fix)})


def _get_priors(knowledge: Knowledge) -> dict[GainKind, Realization]:
    return {row.kind: row for row in knowledge.calibration.realised}


def _resolve_forgotten(
    before: LearnedCatalogue, known: list[str], forget: str | None, unforget: str | None
) -> set[str]:
    out = set(before.forgotten)
    if forget is not None and forget not in out:
        if forget not in known:
            raise UnknownNameError("session", forget, known, "session list")
        out.add(forget)
    if unforget is not None:
        if unforget not in out:
            raise UnknownNameError("forgotten session", unforget, out, "learn --dry-run --json")
        out.remove(unforget)
    return out


def _locate_learned_file() -> Path:
    """Return the project's file; in a checkout of KernelKB that is the shipped one.

    Raises:
        KbError: The project's folder ``knowledge`` is somebody else's.
    """
    folder = get_project_path() / "knowledge"
    ours = overlay_folder(str(get_project_path())) or folder.resolve() == Path(
        shipped_folder("knowledge")
    )
    if not ours and any(folder.rglob("*.yaml")):
        raise KbError(
            f"{folder} holds YAML files that are no knowledge; move them, so that learned.yaml "
            "can stand there"
        )
    return folder / "learned.yaml"


def _backup_path() -> Path:
    return get_project_path() / ".kb" / "learned.yaml.before"


def _read_learned(path: Path) -> LearnedCatalogue:
    if not path.is_file():
        return LearnedCatalogue()
    record, _, problems = read_record(path, LearnedCatalogue, str(path))
    if record is None:
        raise KnowledgeError(problems)
    return record


def _write_learned(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _back_up(path, _backup_path())
        _replace_file(path, text.encode())
    except OSError as error:
        raise _make_write_error(path, error) from error


def _back_up(path: Path, backup: Path) -> None:
    """Keep the file as it is; nothing where there is none."""
    backup.parent.mkdir(parents=True, exist_ok=True)
    _replace_file(backup, path.read_bytes() if path.is_file() else b"")


def _replace_file(path: Path, body: bytes) -> None:
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=".tmp", delete=False) as file:
        file.write(body)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)


def _make_write_error(path: Path, error: OSError) -> SessionError:
    return SessionError(f"cannot write {path}: {error.strerror}; run where you may write")
