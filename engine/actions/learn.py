"""Sessions → the file ``learned.yaml``, and back again."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

from kernelkb.actions.bench_target import project
from kernelkb.decide.parse_metric import find_device
from kernelkb.errors import KbError, KnowledgeError, SessionError, UnknownNameError
from kernelkb.graph.device_facts import device_names
from kernelkb.loading.kernels import kernel_folders, load_kernel
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.loading.located import read as read_record
from kernelkb.model.base import GainKind
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.learned import Learned
from kernelkb.model.session import Decision, Entry, Session
from kernelkb.model.threshold import Realised
from kernelkb.record import sessions as files
from kernelkb.record.learn import learned
from kernelkb.record.learned_diff import Change, changes
from kernelkb.record.learning_cases import KindOf
from kernelkb.record.pattern_candidates import Candidate, candidates
from kernelkb.safety.paths import overlay_folder, shipped

HEADER = "# Written by kb learn from the sessions, which it names; edit those, not this file.\n"


class Lesson(NamedTuple):
    """What the sessions teach, next to what the file said before."""

    file: Path
    learned: Learned
    changes: tuple[Change, ...]
    candidates: tuple[Candidate, ...]
    written: bool


def learn(*, forget: str | None = None, unforget: str | None = None, write: bool = True) -> Lesson:
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
    own = overlay_folder(str(project()))
    knowledge = load_knowledge(overlay=Path(own) if own else None, instead={"learned.yaml": None})
    path = _file()
    before = _read(path)
    everything = read_sessions(project() / "sessions", knowledge)
    out = _forgotten(before, [one.session for one in everything], forget, unforget)
    found = learned(everything, _priors(knowledge), kinds(knowledge), out)
    text = dumped(found)
    same = text == (path.read_text(encoding="utf-8") if path.is_file() else dumped(Learned()))
    if write and not same:
        _write(path, text)
    counted = [one for one in everything if one.session not in out]
    return Lesson(path, found, changes(before, found), candidates(counted), write and not same)


def undo() -> Path:
    """Put back the file as it was before it was last written; once more puts this one back.

    Raises:
        SessionError: Nothing was written yet, or the project cannot be written.
    """
    path, kept = _file(), _kept()
    if not kept.is_file():
        raise SessionError(f"nothing to undo: kb learn has not written {path} here yet")
    earlier = kept.read_bytes()
    try:
        _keep(path, kept)
        if earlier:
            _replace(path, earlier)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def kinds(knowledge: Knowledge) -> KindOf:
    """Return what says of which kind the gain of a bottleneck and a fix is."""
    gains: dict[str, GainKind] = {b.id: b.gain.kind for b in knowledge.bottlenecks if b.gain}
    fixes = {fix.id for family in knowledge.families for fix in family.fixes}
    return lambda bottleneck, fix: gains.get(bottleneck) if fix in fixes else None


def dumped(found: Learned) -> str:
    """Return the text of the file; the same for the same lessons."""
    plain = found.model_dump(mode="json", exclude_defaults=True)
    return HEADER + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)


def read_sessions(folder: Path, knowledge: Knowledge) -> list[Session]:
    """Return all sessions of a folder, with what entries of earlier versions left unsaid."""
    found = [files.read(name, folder) for name in files.sessions(folder)]
    return [
        one.model_copy(update={"entries": tuple(completed(e, knowledge) for e in one.entries)})
        for one in found
    ]


def completed(entry: Entry, knowledge: Knowledge) -> Entry:
    """Return an entry with its compute capability, where it only names its GPU.

    One that does not say either what its predictions took for granted is older than the field
    for what was changed together: then the variant's own list of fixes says it.
    """
    applied = {d.applied_as for d in entry.decisions if d.applied_as and d.calibration is None}
    if applied and entry.kernel in kernel_folders(project()):
        variants = load_kernel(entry.kernel, project()).kernel.variants
        fixes = {v.id: v.applies for v in variants if v.target == entry.target}
        entry = entry.model_copy(
            update={"decisions": tuple(_together(d, fixes) for d in entry.decisions)}
        )
    if entry.cc or entry.target != "cuda":
        return entry
    device = entry.device or find_device(device_names(knowledge), entry.machine or "")
    found = next((d.cc for d in knowledge.devices.devices if d.id == device), None)
    return entry.model_copy(update={"cc": found}) if found else entry


def _together(decision: Decision, fixes: Mapping[str, tuple[str, ...]]) -> Decision:
    if decision.together or decision.calibration is not None:
        return decision
    others = fixes.get(decision.applied_as or "", ())
    return decision.model_copy(update={"together": tuple(f for f in others if f != decision.fix)})


def _priors(knowledge: Knowledge) -> dict[GainKind, Realised]:
    return {row.kind: row for row in knowledge.calibration.realised}


def _forgotten(
    before: Learned, known: list[str], forget: str | None, unforget: str | None
) -> set[str]:
    out = set(before.forgotten)
    if forget is not None and forget not in out:
        if forget not in known:
            raise UnknownNameError("session", forget, known, "kb session list")
        out.add(forget)
    if unforget is not None:
        if unforget not in out:
            raise UnknownNameError("forgotten session", unforget, out, "kb learn --dry-run --json")
        out.remove(unforget)
    return out


def _file() -> Path:
    """Return the project's file; in a checkout of KernelKB that is the shipped one.

    Raises:
        KbError: The project's folder ``knowledge`` is somebody else's.
    """
    folder = project() / "knowledge"
    ours = overlay_folder(str(project())) or folder.resolve() == Path(shipped("knowledge"))
    if not ours and any(folder.rglob("*.yaml")):
        raise KbError(
            f"{folder} holds YAML files that are no knowledge; move them, so that learned.yaml "
            "can stand there"
        )
    return folder / "learned.yaml"


def _kept() -> Path:
    return project() / ".kb" / "learned.yaml.before"


def _read(path: Path) -> Learned:
    if not path.is_file():
        return Learned()
    record, _, problems = read_record(path, Learned, str(path))
    if record is None:
        raise KnowledgeError(problems)
    return record


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _keep(path, _kept())
        _replace(path, text.encode())
    except OSError as error:
        raise _unwritable(path, error) from error


def _keep(path: Path, kept: Path) -> None:
    """Keep the file as it is; nothing where there is none."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    _replace(kept, path.read_bytes() if path.is_file() else b"")


def _replace(path: Path, body: bytes) -> None:
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=".tmp", delete=False) as file:
        file.write(body)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)


def _unwritable(path: Path, error: OSError) -> SessionError:
    return SessionError(f"cannot write {path}: {error.strerror}; run where you may write")
