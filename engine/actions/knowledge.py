"""Check, list and print what the knowledge base holds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kernelkb.actions.bench_target import project
from kernelkb.checks.lint import lint
from kernelkb.errors import KnowledgeError, Problem, SessionError, UnknownNameError
from kernelkb.loading.digest import key
from kernelkb.loading.kernels import kernel_folders, load_kernel
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.model.base import Record
from kernelkb.model.bottleneck import Bottleneck
from kernelkb.model.fix import Fix
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.learned import Learned
from kernelkb.record.sessions import read as read_session
from kernelkb.record.sessions import sessions
from kernelkb.render.learned import lesson_titles
from kernelkb.safety.paths import overlay_folder, shipped

KINDS = (
    "metrics",
    "bottlenecks",
    "fixes",
    "devices",
    "architectures",
    "thresholds",
    "sources",
    "trees",
    "patterns",
    "symptoms",
    "workflow",
    "stop-rules",
    "preflight",
    "learned",
    "kernels",
)

_PLURAL = {
    "threshold": "thresholds",
    "bottleneck": "bottlenecks",
    "fix": "fixes",
    "pattern": "patterns",
}


def check(root: Path | None = None) -> tuple[list[Problem], str]:
    """Validate the knowledge, and the kernels and sessions of this project and of the package.

    Args:
        root: A knowledge folder; the shipped one by default.

    Returns:
        Every complaint, and a sentence that counts what was checked.
    """
    problems: list[Problem] = []
    found = ""
    try:
        knowledge = load_knowledge(root) if root else here()
        folder = str(root or shipped("knowledge"))
        problems += [Problem(folder, 1, 1, where, text) for where, text in lint(knowledge)]
        found = ", ".join(f"{len(ids)} {kind}" for kind, ids in entries_of(knowledge).items())
    except KnowledgeError as error:
        problems += error.problems
    kernels = kernel_folders(project()) if root is None else {}
    for name in kernels:
        try:
            load_kernel(name, project())
        except KnowledgeError as error:
            problems += error.problems
    if root is None:
        problems += _wrong_sessions(project() / "sessions")
    return problems, f"{found}, {len(kernels)} kernels" if kernels else found


def _wrong_sessions(folder: Path) -> Iterator[Problem]:
    for name in sessions(folder):
        try:
            read_session(name, folder)
        except SessionError as error:
            said = Problem(str(folder / f"{name}.md"), 1, 1, "file", str(error))
            yield from error.problems or (said,)


def show(kind_or_id: str) -> list[dict[str, Any]] | dict[str, Any]:
    """Return the entries of a kind as id and title, or one whole entry.

    Raises:
        UnknownNameError: Neither a kind nor the id of an entry.
        KnowledgeError: The knowledge is wrong.
    """
    if kind_or_id == "kernels":
        rows = ((n, load_kernel(n, project()).kernel.title) for n in kernel_folders(project()))
        return [{"id": name, "title": title} for name, title in rows]
    if kind_or_id in kernel_folders(project()):
        return load_kernel(kind_or_id, project()).kernel.model_dump(mode="json", by_alias=True)
    knowledge = here()
    if kind_or_id == "learned":
        return lesson_titles(knowledge.learned)
    kinds = entries_of(knowledge)
    if kind_or_id in kinds:
        return [{"id": n, "title": title_of(r)} for n, r in kinds[kind_or_id].items()]
    for kind, entries in kinds.items():
        if kind_or_id in entries:
            record = entries[kind_or_id]
            said = record.model_dump(mode="json", by_alias=True, exclude_none=True)
            lessons = _lessons(knowledge.learned, record)
            return {**said, **lessons, **_history(kind, kind_or_id, knowledge)}
    names = [name for entries in kinds.values() for name in entries]
    raise UnknownNameError("entry", kind_or_id, (*KINDS, *names), "kb show KIND")


def _history(kind: str, name: str, knowledge: Knowledge) -> dict[str, Any]:
    """Return what an entry was before the project and its reviews changed it, and who did."""
    found: dict[str, Any] = {}
    if kind == "thresholds" and name in knowledge.overridden:
        found["shipped"] = knowledge.overridden[name]
    changes = [c for c in knowledge.changed if (_PLURAL[c.kind], c.id) == (kind, name)]
    if changes:
        leave = {"kind", "id"}
        found["reviewed"] = [
            c.model_dump(mode="json", by_alias=True, exclude=leave, exclude_none=True)
            for c in changes
        ]
    return found


def here() -> Knowledge:
    """Return the shipped knowledge with the project's own on top of it.

    Raises:
        KnowledgeError: A file is wrong.
    """
    own = overlay()
    return _loaded(content(), own)


def content() -> str:
    """Return a digest of what ``here`` returns; two equal ones are the same knowledge."""
    own = overlay()
    return key(shipped("knowledge"), str(own) if own else None)


@lru_cache(maxsize=2)
def _loaded(_content: str, own: Path | None) -> Knowledge:
    """Load the knowledge once for each content: that takes half a second, asking takes 5 ms."""
    return load_knowledge(overlay=own)


def overlay() -> Path | None:
    """Return the project's own knowledge folder, None where it has none."""
    own = overlay_folder(str(project()))
    return Path(own) if own else None


def entries_of(knowledge: Knowledge) -> dict[str, dict[str, Record]]:
    """Return the entries of each kind by id, in the order of their files."""
    fixes = [fix for family in knowledge.families for fix in family.fixes]
    entries: dict[str, tuple[Any, ...]] = {
        "metrics": knowledge.catalogue.metrics,
        "bottlenecks": knowledge.bottlenecks,
        "fixes": tuple(fixes),
        "devices": knowledge.devices.devices,
        "architectures": knowledge.devices.architectures,
        "thresholds": knowledge.thresholds.thresholds,
        "sources": knowledge.bibliography.sources,
        "trees": knowledge.trees,
        "patterns": knowledge.patterns,
        "symptoms": tuple(s for family in knowledge.symptoms for s in family.symptoms),
        "workflow": knowledge.workflow.phases,
        "stop-rules": knowledge.workflow.stop_rules,
        "preflight": knowledge.workflow.preflight,
    }
    return {kind: {entry.id: entry for entry in found} for kind, found in entries.items()}


def _lessons(learned: Learned, entry: BaseModel) -> dict[str, Any]:
    """Return what was learned about a fix or a bottleneck, nothing for anything else."""
    field = {Bottleneck: "bottleneck", Fix: "fix"}.get(type(entry))
    rows = [f for f in learned.fixes if field and getattr(f, field) == getattr(entry, "id", None)]
    return {"learned": [row.model_dump(mode="json") for row in rows]} if rows else {}


def title_of(record: BaseModel) -> str:
    """Return the sentence that says most about an entry."""
    for field in ("title", "check", "do", "why"):
        if hasattr(record, field):
            return str(getattr(record, field))
    return ""
