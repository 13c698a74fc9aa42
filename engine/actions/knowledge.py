"""Check, list and print what the knowledge base holds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kernelkb.actions.bench_target import get_project_path
from kernelkb.checks.lint import lint
from kernelkb.errors import KnowledgeError, Problem, SessionError, UnknownNameError
from kernelkb.loading.digest import compute_cache_key
from kernelkb.loading.kernels import find_kernel_folders, load_kernel
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.model.base import Record
from kernelkb.model.bottleneck import Bottleneck
from kernelkb.model.fix import Fix
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.learned import LearnedCatalogue
from kernelkb.record.sessions import list_session_ids
from kernelkb.record.sessions import read_session as read_session
from kernelkb.render.learned import list_learned_titles
from kernelkb.safety.paths import overlay_folder, shipped_folder

ENTRY_KINDS = (
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


def check_knowledge(root: Path | None = None) -> tuple[list[Problem], str]:
    """Validate the knowledge, and the kernels and sessions of this project and of the package.

    Args:
        root: A knowledge folder; the shipped one by default.

    Returns:
        Every complaint, and a sentence that counts what was checked.
    """
    problems: list[Problem] = []
    found = ""
    try:
        knowledge = load_knowledge(root) if root else load_project_knowledge()
        folder = str(root or shipped_folder("knowledge"))
        problems += [Problem(folder, 1, 1, where, text) for where, text in lint(knowledge)]
        found = ", ".join(
            f"{len(ids)} {kind}" for kind, ids in group_entries_by_kind(knowledge).items()
        )
    except KnowledgeError as error:
        problems += error.problems
    kernels = find_kernel_folders(get_project_path()) if root is None else {}
    for name in kernels:
        try:
            load_kernel(name, get_project_path())
        except KnowledgeError as error:
            problems += error.problems
    if root is None:
        problems += _find_session_problems(get_project_path() / "sessions")
    return problems, f"{found}, {len(kernels)} kernels" if kernels else found


def _find_session_problems(folder: Path) -> Iterator[Problem]:
    for name in list_session_ids(folder):
        try:
            read_session(name, folder)
        except SessionError as error:
            said = Problem(str(folder / f"{name}.md"), 1, 1, "file", str(error))
            yield from error.problems or (said,)


def look_up_entries(kind_or_id: str) -> list[dict[str, Any]] | dict[str, Any]:
    """Return the entries of a kind as id and title, or one whole entry.

    Raises:
        UnknownNameError: Neither a kind nor the id of an entry.
        KnowledgeError: The knowledge is wrong.
    """
    if kind_or_id == "kernels":
        rows = (
            (n, load_kernel(n, get_project_path()).kernel.title)
            for n in find_kernel_folders(get_project_path())
        )
        return [{"id": name, "title": title} for name, title in rows]
    if kind_or_id in find_kernel_folders(get_project_path()):
        return load_kernel(kind_or_id, get_project_path()).kernel.model_dump(
            mode="json", by_alias=True
        )
    knowledge = load_project_knowledge()
    if kind_or_id == "learned":
        return list_learned_titles(knowledge.learned)
    kinds = group_entries_by_kind(knowledge)
    if kind_or_id in kinds:
        return [{"id": n, "title": get_entry_title(r)} for n, r in kinds[kind_or_id].items()]
    for kind, entries in kinds.items():
        if kind_or_id in entries:
            record = entries[kind_or_id]
            said = record.model_dump(mode="json", by_alias=True, exclude_none=True)
            lessons = _find_lessons(knowledge.learned, record)
            return {**said, **lessons, **_collect_entry_changes(kind, kind_or_id, knowledge)}
    names = [name for entries in kinds.values() for name in entries]
    raise UnknownNameError("entry", kind_or_id, (*ENTRY_KINDS, *names), "show", kind=None)


def _collect_entry_changes(kind: str, name: str, knowledge: Knowledge) -> dict[str, Any]:
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


def load_project_knowledge() -> Knowledge:
    """Return the shipped knowledge with the project's own on top of it.

    Raises:
        KnowledgeError: A file is wrong.
    """
    own = find_project_overlay()
    return _load_cached(knowledge_digest(), own)


def knowledge_digest() -> str:
    """Return a digest of what ``here`` returns; two equal ones are the same knowledge."""
    own = find_project_overlay()
    return compute_cache_key(shipped_folder("knowledge"), str(own) if own else None)


@lru_cache(maxsize=2)
def _load_cached(_content: str, own: Path | None) -> Knowledge:
    """Load the knowledge once for each content: that takes half a second, asking takes 5 ms."""
    return load_knowledge(overlay=own)


def find_project_overlay() -> Path | None:
    """Return the project's own knowledge folder, None where it has none."""
    own = overlay_folder(str(get_project_path()))
    return Path(own) if own else None


def group_entries_by_kind(knowledge: Knowledge) -> dict[str, dict[str, Record]]:
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


def _find_lessons(learned: LearnedCatalogue, entry: BaseModel) -> dict[str, Any]:
    """Return what was learned about a fix or a bottleneck, nothing for anything else."""
    field = {Bottleneck: "bottleneck", Fix: "fix"}.get(type(entry))
    rows = [f for f in learned.fixes if field and getattr(f, field) == getattr(entry, "id", None)]
    return {"learned": [row.model_dump(mode="json") for row in rows]} if rows else {}


def get_entry_title(record: BaseModel) -> str:
    """Return the sentence that says most about an entry."""
    for field in ("title", "check", "do", "why"):
        if hasattr(record, field):
            return str(getattr(record, field))
    return ""
