"""The knowledge as pages: each entry with what it names and what names it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from kernelkb.actions.knowledge.knowledge import (
    draw_picture,
    get_entry_title,
    group_entries_by_kind,
    knowledge_digest,
    load_project_knowledge,
    look_up_entries,
)
from kernelkb.decide.recommend import PERFORMANCE_GATE
from kernelkb.errors import UnknownNameError
from kernelkb.graph.search_documents import iter_strings
from kernelkb.model.base import Record
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.render.documents.entries import (
    CONDITIONS,
    LimitRow,
    label_field,
    list_limits,
    say_conditions,
)
from kernelkb.render.documents.quickref import COMMANDS, list_cause_rows
from kernelkb.render.html.diagrams import place_picture
from kernelkb.web.site import WebPage

KIND_TITLES = {
    "bottlenecks": "Causes",
    "fixes": "Fixes",
    "trees": "Decision trees",
    "patterns": "Ways of working",
    "symptoms": "Messages",
    "devices": "GPUs and CPUs",
    "architectures": "Architectures",
    "metrics": "Metrics",
    "thresholds": "Thresholds",
    "workflow": "Phases",
    "preflight": "Before a session",
    "stop-rules": "When to stop",
    "sources": "Sources",
}
"""Kinds of entries in the order of the page."""
_HIDDEN = (
    "id",
    "title",
    "measured",
    "learned",
    "code",
    "at_call",
    "recognised_by",
    "lines",
    "raw_scale",
    "raw_zero",
    "captures",
    "fallback",
)
"""Fields that a page shows elsewhere, or that only programs read."""
_GROUPED = {"bottlenecks": "group", "metrics": "unit", "thresholds": "evidence"}
"""The field by which the entries of a kind are listed."""
_MAX_OPEN = 100
"""Entries of a kind whose groups are all open."""
_PICTURED = ("trees", "bottlenecks")


class EntryLinks(NamedTuple):
    """Which entries name which, both ways."""

    kinds: Mapping[str, str]
    """Kind by id."""
    titles: Mapping[str, str]
    named_by: Mapping[str, tuple[str, ...]]
    """By id, the entries that name it."""


@lru_cache(maxsize=2)
def _link_entries(_digest: str) -> EntryLinks:
    groups = group_entries_by_kind(load_project_knowledge())
    kinds: dict[str, str] = {}
    titles: dict[str, str] = {}
    for kind in KIND_TITLES:
        for name, record in groups[kind].items():
            kinds.setdefault(name, kind)
            titles.setdefault(name, get_entry_title(record))
    named_by: dict[str, dict[str, None]] = {}
    for kind in KIND_TITLES:
        for name, record in groups[kind].items():
            for word in iter_strings(record.model_dump(mode="json", by_alias=True)):
                if word in kinds and word != name:
                    named_by.setdefault(word, {})[name] = None
    return EntryLinks(kinds, titles, {name: tuple(found) for name, found in named_by.items()})


def link_entries() -> EntryLinks:
    """Return the links between the entries of this project's knowledge."""
    return _link_entries(knowledge_digest())


def show_index(_: Mapping[str, str]) -> WebPage:
    """Return the list of kinds, with the number of entries of each."""
    groups = group_entries_by_kind(load_project_knowledge())
    kinds = [(kind, title, len(groups[kind])) for kind, title in KIND_TITLES.items()]
    return WebPage("knowledge.html", "Knowledge", "knowledge", {"kind": "", "kinds": kinds})


def show_kind(asked: Mapping[str, str]) -> WebPage:
    """Return the list of the entries of a ``kind``, in groups where they have some.

    Raises:
        UnknownNameError: There is no such kind.
    """
    groups, kind = group_entries_by_kind(load_project_knowledge()), asked["kind"]
    if kind not in KIND_TITLES:
        raise UnknownNameError("kind", kind, KIND_TITLES, "show", kind=None)
    rows: dict[str, list[tuple[str, str]]] = {}
    knowledge = load_project_knowledge()
    known = {one.id: str(made.family) for made in knowledge.symptoms for one in made.symptoms}
    known |= {one.id: family.family for family in knowledge.families for one in family.fixes}
    for name, record in groups[kind].items():
        named = known if kind in ("symptoms", "fixes") else {}
        group = named.get(name) or getattr(record, _GROUPED.get(kind, ""), "")
        rows.setdefault(str(group).replace("-", " "), []).append((name, get_entry_title(record)))
    values = {
        "kind": kind,
        "groups": rows,
        "is_folded": len(groups[kind]) > _MAX_OPEN and len(rows) > 1,
    }
    return WebPage("knowledge.html", KIND_TITLES[kind], "knowledge", values)


def show_entry(asked: Mapping[str, str]) -> WebPage:
    """Return the entry ``name`` of a ``kind``: its fields, code, what it names and what names it.

    Raises:
        UnknownNameError: There is no such entry of that kind.
    """
    knowledge, kind, name = load_project_knowledge(), asked["kind"], asked["name"]
    groups = group_entries_by_kind(knowledge)
    record = groups.get(kind, {}).get(name)
    if record is None or kind not in KIND_TITLES:
        raise UnknownNameError(f"page of {kind}", name, groups.get(kind, KIND_TITLES), "show")
    links = link_entries()
    found = look_up_entries(name) if links.kinds[name] == kind else {}
    known = found if isinstance(found, dict) and found else record.model_dump(mode="json")
    fields = {**known, **say_conditions(record, known, knowledge)}
    heading = get_entry_title(record) or name
    first = {key: fields[key] for key in ("definition",) if key in fields}
    shown = {k: v for k, v in {**first, **fields}.items() if k not in _HIDDEN and v != heading}
    named_by: dict[str, list[str]] = {}
    for other in links.named_by.get(name, ()):
        named_by.setdefault(links.kinds[other], []).append(other)
    picture = draw_picture(name, {}, {}, says_titles=True) if kind in _PICTURED else None
    values = {
        "kind": kind,
        "id": name,
        "fields": shown,
        "all": fields,
        "limits": _list_limits(record, knowledge),
        "tree": record if kind == "trees" else None,
        "goals": _name_goals(record),
        "links": links,
        "label": label_field,
        "named_by": named_by,
        "kind_titles": KIND_TITLES,
        "diagram_of": picture and place_picture(picture),
    }
    return WebPage("entry.html", heading, "knowledge", values)


def _list_limits(record: Record, knowledge: Knowledge) -> dict[str, list[LimitRow]]:
    """Return the limits in each condition of an entry, by its field or by its question."""
    asked = [(one.id, one.when) for one in getattr(record, "questions", ())]
    return {
        name: list_limits(value, knowledge)
        for name, value in [*record, *asked]
        if isinstance(value, CONDITIONS)
    }


def _name_goals(record: Record) -> dict[str, str]:
    """Return by id where an answer in a tree leads: the next question, or the verdict of an end."""
    ends = {one.id: f"{one.verdict}: {one.because}" for one in getattr(record, "leaves", ())}
    return {one.id: one.ask for one in getattr(record, "questions", ())} | ends


def show_quickref(_: Mapping[str, str]) -> WebPage:
    """Return the quick reference: the causes with their first fixes, and the commands."""
    knowledge = load_project_knowledge()
    metrics = {one.id: one for one in knowledge.catalogue.metrics}
    causes = {
        target: [
            (name.replace("-", " "), list(own))
            for name, own in groupby(list_cause_rows(knowledge, target, metrics), lambda r: r.group)
        ]
        for target in ("cuda", "cpu")
    }
    values = {
        "gate": next(tree for tree in knowledge.trees if tree.id == PERFORMANCE_GATE),
        "causes": causes,
        "commands": COMMANDS,
    }
    return WebPage("quickref.html", "Quick reference", "knowledge", values)
