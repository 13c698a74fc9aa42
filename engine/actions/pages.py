"""The knowledge as pages: which there are, and each of them as Markdown."""

from __future__ import annotations

from typing import NamedTuple

from kernelkb.actions.knowledge import entries_of, here, title_of
from kernelkb.errors import UnknownNameError

KINDS = ("trees", "patterns", "bottlenecks", "devices", "fixes")
"""Kinds whose entries have a page each, those that somebody reads first at the beginning."""

SINGLE = {
    "index": "What there is, by kind",
    "quickref": "Quick reference: gates, causes and first fixes",
    "sessions": "Sessions of this project",
}
"""Pages of which there is one, and their titles."""


class Page(NamedTuple):
    """What a list says of one page."""

    kind: str
    id: str
    title: str


def pages() -> list[Page]:
    """Return every entry that has a page, always in the same order."""
    known = entries_of(here())
    return [Page(kind, name, title_of(one)) for kind in KINDS for name, one in known[kind].items()]


def page(kind: str, name: str) -> str:
    """Return one entry as Markdown.

    Raises:
        UnknownNameError: There is no such entry of that kind.
    """
    from kernelkb.render.entries import entry_page

    knowledge = here()
    found = entries_of(knowledge).get(kind, {}) if kind in KINDS else {}
    if name not in found:
        raise UnknownNameError(f"page of {kind}", name, found or KINDS, "kb show KIND")
    return entry_page(found[name], knowledge)


def single(name: str) -> str:
    """Return the index, the quick reference or the list of sessions as Markdown.

    Raises:
        UnknownNameError: There is no such page.
    """
    if name == "index":
        return "\n".join(_index()) + "\n"
    if name == "quickref":
        from kernelkb.render.quickref import quickref

        return quickref(here())
    if name == "sessions":
        from kernelkb.actions.sessions import list_sessions
        from kernelkb.render.sessions import session_lines

        lines = [f"    {line}" for line in session_lines(list_sessions())]
        return "\n".join([f"# {SINGLE[name]}", "", *(lines or ["None yet."])]) + "\n"
    raise UnknownNameError("page", name, SINGLE, "kb show KIND")


def _index() -> list[str]:
    lines = [f"# {SINGLE['index']}", ""]
    lines += [f"- [{title}](kb://{name})" for name, title in SINGLE.items() if name != "index"]
    kind = ""
    for one in pages():
        if one.kind != kind:
            kind = one.kind
            lines += ["", f"## {kind.capitalize()}", ""]
        lines.append(f"- [{one.id}](kb://{kind}/{one.id}): {one.title}")
    return lines
