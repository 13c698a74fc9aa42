"""Knowledge entries as Markdown pages, and their index; MCP resources serve them."""

from __future__ import annotations

from typing import NamedTuple

from kernelkb.actions.knowledge.knowledge import (
    get_entry_title,
    group_entries_by_kind,
    load_project_knowledge,
    read_entry_code,
)
from kernelkb.errors import UnknownNameError

PAGE_KINDS = ("trees", "patterns", "bottlenecks", "devices", "fixes")
"""Kinds whose entries have a page each, in the order of the index."""

SINGLE_PAGES = {
    "index": "What there is, by kind",
    "quickref": "Quick reference: gates, causes and first fixes",
    "sessions": "Sessions of this project",
}
"""Titles of the pages that are no entries."""


class Page(NamedTuple):
    """One row of the list of pages."""

    kind: str
    id: str
    title: str


def list_pages() -> list[Page]:
    """Return every entry that has a page, in the order of kinds and files."""
    entries = group_entries_by_kind(load_project_knowledge())
    return [
        Page(kind, name, get_entry_title(record))
        for kind in PAGE_KINDS
        for name, record in entries[kind].items()
    ]


def generate_entry_page(kind: str, name: str) -> str:
    """Return one entry as Markdown.

    Raises:
        UnknownNameError: There is no such entry of that kind.
    """
    from kernelkb.render.documents.entries import format_entry_page

    knowledge = load_project_knowledge()
    entries = group_entries_by_kind(knowledge).get(kind, {}) if kind in PAGE_KINDS else {}
    if name not in entries:
        raise UnknownNameError(f"page of {kind}", name, entries or PAGE_KINDS, "show", kind=None)
    return format_entry_page(entries[name], knowledge, read_entry_code(entries[name]))


def generate_single_page(name: str) -> str:
    """Return the index, the quick reference or the list of sessions as Markdown.

    Raises:
        UnknownNameError: There is no such page.
    """
    if name == "index":
        return "\n".join(_generate_index()) + "\n"
    if name == "quickref":
        from kernelkb.render.documents.quickref import format_quickref

        return format_quickref(load_project_knowledge())
    if name == "sessions":
        from kernelkb.actions.sessions.sessions import list_sessions
        from kernelkb.render.text.sessions import format_session_lines

        lines = [f"    {line}" for line in format_session_lines(list_sessions())]
        return "\n".join([f"# {SINGLE_PAGES[name]}", "", *(lines or ["None yet."])]) + "\n"
    raise UnknownNameError("page", name, SINGLE_PAGES, "show", kind=None)


def _generate_index() -> list[str]:
    lines = [f"# {SINGLE_PAGES['index']}", ""]
    lines += [
        f"- [{title}](kb://{name})" for name, title in SINGLE_PAGES.items() if name != "index"
    ]
    kind = ""
    for page in list_pages():
        if page.kind != kind:
            kind = page.kind
            lines += ["", f"## {kind.capitalize()}", ""]
        lines.append(f"- [{page.id}](kb://{kind}/{page.id}): {page.title}")
    return lines
