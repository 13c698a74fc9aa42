"""Checks, lists and prints the entries of the knowledge base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kernelkb.actions.advice.recommend import parse_given_metrics
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.checks import lint
from kernelkb.decide.conditions import evaluate_comparisons
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.diagnose import judge_bottleneck, walk_gate_tree
from kernelkb.decide.parse_metric import resolve_device
from kernelkb.errors import KnowledgeError, Problem, SessionError, UnknownNameError
from kernelkb.graph.picture import (
    Picture,
    build_bottleneck_picture,
    build_tree_picture,
    name_entries,
)
from kernelkb.graph.rows import summarize_measured
from kernelkb.loading.digest import find_cache_key
from kernelkb.loading.kernels import FILL_IN_MARK, find_kernel_folders, load_kernel
from kernelkb.loading.knowledge import find_fix_code_problems, load_knowledge, read_fix_code
from kernelkb.model.base import Record
from kernelkb.model.entries.bottleneck import Bottleneck
from kernelkb.model.entries.fix import Fix, FixCode
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.learned import LearnedCatalogue
from kernelkb.model.entries.workflow import Tree
from kernelkb.record.sessions import list_session_ids, read_session
from kernelkb.render.documents.entries import describe_condition
from kernelkb.render.text.sessions import list_learned_titles
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
    counts = ""
    try:
        knowledge = load_knowledge(root) if root else load_project_knowledge()
        folder = str(root or shipped_folder("knowledge"))
        problems += [Problem(folder, 1, 1, where, text) for where, text in lint(knowledge)]
        for code_folder in [root] if root else _list_knowledge_folders():
            problems += find_fix_code_problems(code_folder, knowledge)
        counts = ", ".join(
            f"{len(ids)} {kind}" for kind, ids in group_entries_by_kind(knowledge).items()
        )
    except KnowledgeError as error:
        problems += error.problems
    kernels = find_kernel_folders(get_project_path()) if root is None else {}
    drafts = []
    for name in kernels:
        try:
            load_kernel(name, get_project_path())
        except KnowledgeError as error:
            draft = describe_draft(name, error)
            drafts += [draft] if draft else []
            problems += () if draft else error.problems
    if root is None:
        problems += _find_session_problems(get_project_path() / "sessions")
    texts = [counts, *([f"{len(kernels)} kernels"] if kernels else []), *drafts]
    return problems, ", ".join(texts)


def describe_draft(name: str, error: KnowledgeError) -> str | None:
    """Return the lines that ``kb init`` left to fill in; None where the file has other mistakes."""
    if any(FILL_IN_MARK not in problem.message for problem in error.problems):
        return None
    lines = ", ".join(f"{Path(p.path).name}:{p.line}" for p in error.problems)
    return f"unfinished draft kernels/{name} ({lines})"


def _list_kernel_titles() -> Iterator[dict[str, Any]]:
    for name in find_kernel_folders(get_project_path()):
        try:
            title = load_kernel(name, get_project_path()).kernel.title
        except KnowledgeError as error:
            draft = describe_draft(name, error)
            if draft is None:
                raise
            title = draft
        yield {"id": name, "title": title}


def _find_session_problems(folder: Path) -> Iterator[Problem]:
    for name in list_session_ids(folder):
        try:
            read_session(name, folder)
        except SessionError as error:
            unlocated = Problem(str(folder / f"{name}.md"), 1, 1, "file", str(error))
            yield from error.problems or (unlocated,)


def look_up_entries(kind_or_id: str) -> list[dict[str, Any]] | dict[str, Any]:
    """Return the entries of a kind as id and title, or one whole entry.

    Raises:
        UnknownNameError: Neither a kind nor the id of an entry.
        KnowledgeError: The knowledge is wrong.
    """
    if kind_or_id == "kernels":
        return list(_list_kernel_titles())
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
            fields = record.model_dump(mode="json", by_alias=True, exclude_none=True)
            code = read_entry_code(record)
            return {
                **fields,
                **({"code": code.text} if code else {}),
                **_find_measured(knowledge, record),
                **_find_learned(knowledge.learned, record),
                **_collect_entry_changes(kind, kind_or_id, knowledge),
            }
    names = [name for entries in kinds.values() for name in entries]
    raise UnknownNameError("entry", kind_or_id, (*ENTRY_KINDS, *names), "show", kind=None)


def read_entry_code(record: BaseModel) -> FixCode | None:
    """Return the code of a fix, the project's own first; None if it has none, as other entries.

    Raises:
        KnowledgeError: Its file is wrong.
    """
    if not isinstance(record, Fix):
        return None
    return read_fix_code(record.id, reversed(_list_knowledge_folders()))


def _list_knowledge_folders() -> list[Path]:
    """Return the shipped knowledge folder, and the project's own if it has one."""
    overlay = find_project_overlay()
    return [Path(shipped_folder("knowledge")), *([overlay] if overlay else [])]


def _find_measured(knowledge: Knowledge, record: BaseModel) -> dict[str, Any]:
    """Return what a fix gave in the measured pairs of the zoo; nothing for other entries."""
    if not isinstance(record, Fix):
        return {}
    cases = [case for case in knowledge.measured.cases if case.fix == record.id]
    summary = summarize_measured(knowledge, record.id)
    if summary is None:
        return {"measured": "no measured case"}
    rows = [case.model_dump(mode="json", exclude={"fix"}) for case in cases]
    return {
        "measured": {
            **{k: v for k, v in summary.items() if k not in ("kernels", "bottleneck")},
            "cases": rows,
        }
    }


def _collect_entry_changes(kind: str, name: str, knowledge: Knowledge) -> dict[str, Any]:
    """Return the shipped value of an overridden threshold, and the accepted review changes."""
    fields: dict[str, Any] = {}
    if kind == "thresholds" and name in knowledge.overridden:
        fields["shipped"] = knowledge.overridden[name]
    changes = [c for c in knowledge.changed if (_PLURAL[c.kind], c.id) == (kind, name)]
    if changes:
        fields["reviewed"] = [
            c.model_dump(mode="json", by_alias=True, exclude={"kind", "id"}, exclude_none=True)
            for c in changes
        ]
    return fields


def load_project_knowledge() -> Knowledge:
    """Return the shipped knowledge with the project's overlay applied.

    Raises:
        KnowledgeError: A file is wrong.
    """
    return _load_cached(knowledge_digest(), find_project_overlay())


def knowledge_digest() -> str:
    """Return a digest of the files that ``load_project_knowledge`` reads."""
    overlay = find_project_overlay()
    return find_cache_key(shipped_folder("knowledge"), str(overlay) if overlay else None)


@lru_cache(maxsize=2)
def _load_cached(_digest: str, overlay: Path | None) -> Knowledge:
    """Load the knowledge once per content: loading takes 0.5 s, the digest 5 ms."""
    return load_knowledge(overlay=overlay)


def find_project_overlay() -> Path | None:
    """Return the project's own knowledge folder; None when it has none."""
    folder = overlay_folder(str(get_project_path()))
    return Path(folder) if folder else None


_grouped: list[tuple[Knowledge, Mapping[str, Mapping[str, Record]]]] = []
"""The knowledge that was grouped last: grouping takes 1 ms, and each page asks for it."""


def group_entries_by_kind(knowledge: Knowledge) -> Mapping[str, Mapping[str, Record]]:
    """Return the entries of each kind by id, in the order of their files."""
    for known, groups in _grouped:
        if known is knowledge:
            return groups
    found = _group_entries(knowledge)
    _grouped[:] = [(knowledge, found)]
    return found


def _group_entries(knowledge: Knowledge) -> dict[str, dict[str, Record]]:
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
    return {kind: {record.id: record for record in group} for kind, group in entries.items()}


def _word_questions(tree: Tree, knowledge: Knowledge, says_titles: bool) -> dict[str, str]:
    named = {one.id: one for one in knowledge.catalogue.metrics} if says_titles else None
    limits = knowledge.threshold_values
    return {one.id: describe_condition(one.when, limits, named) for one in tree.questions}


def _find_learned(learned: LearnedCatalogue, entry: BaseModel) -> dict[str, Any]:
    """Return what sessions taught about a fix or a bottleneck; empty for other entries."""
    field = {Bottleneck: "bottleneck", Fix: "fix"}.get(type(entry))
    rows = [f for f in learned.fixes if field and getattr(f, field) == getattr(entry, "id", None)]
    return {"learned": [row.model_dump(mode="json") for row in rows]} if rows else {}


def get_entry_title(record: BaseModel) -> str:
    """Return an entry's title, or the field that describes it best."""
    for field in ("title", "check", "do", "why"):
        if hasattr(record, field):
            return str(getattr(record, field))
    return ""


def draw_picture(
    name: str,
    metrics: Mapping[str, str | float],
    headlines: Mapping[str, str | float],
    *,
    target: str = "cuda",
    gpu: str | None = None,
    says_titles: bool = False,
) -> Picture:
    """Return the picture of a tree or of a bottleneck.

    Args:
        name: Id of a tree or of a bottleneck.
        metrics: Values by metric id; with none, no path is highlighted.
        headlines: Values by headline flag.
        target: ``cuda`` or ``cpu``: the hardware of the headline values.
        gpu: Any name of the GPU, or None.
        says_titles: Whether conditions call metrics by their titles, not by their ids.

    Raises:
        UnknownNameError: No such tree, bottleneck, metric or GPU.
        BadValueError: A value that its metric cannot have.
    """
    knowledge, program = load_project_knowledge(), load_compiled_rules()
    given = parse_given_metrics(program, metrics, headlines, target)
    device = resolve_device(program, gpu) if gpu else None
    known = complete_metrics(program, given, device)
    facts = evaluate_comparisons(program["comparisons"], known)
    for tree in knowledge.trees:
        if tree.id == name:
            walked = walk_gate_tree(program["trees"][tree.id], facts) if given else None
            return build_tree_picture(tree, walked, _word_questions(tree, knowledge, says_titles))
    rows = {row["id"]: row for found in program["bottlenecks"].values() for row in found}
    for bottleneck in knowledge.bottlenecks:
        if bottleneck.id == name:
            titles = name_entries(knowledge) if says_titles else {}
            shown, judged = known if given else {}, judge_bottleneck(rows[name], facts.truth)
            return build_bottleneck_picture(bottleneck, knowledge, shown, judged, titles)
    names = [tree.id for tree in knowledge.trees] + list(rows)
    raise UnknownNameError("tree or bottleneck", name, names, "show", id="trees")
