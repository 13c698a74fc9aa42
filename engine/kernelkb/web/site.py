"""Where a page stands, served or written to a folder: the links between pages, and its frame."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from kernelkb.render.html.pages import fill_template

_STATIC = Path(__file__).parent / "static"
SCRIPTS = {"decision": ("htmx.min.js", "page.js"), "live": ("htmx.min.js", "sse.min.js")}
"""By section, what its served pages load in this order; the others need none."""
_NAMES = ("decision", "checklist", "live", "history", "knowledge")
SECTIONS = {"": "Start", **{name: name.title() for name in _NAMES}}
"""Views by their address, in the order of the menu."""


_NO_PAGE = re.compile(r'<a href="">(.*?)</a>', re.DOTALL)
"""A link to a page that a copy does not have."""


class WebPage(NamedTuple):
    """A view, ready for its template."""

    template: str
    """File below ``templates/web/``."""
    title: str
    section: str
    """One of ``SECTIONS``, which the menu marks."""
    values: Mapping[str, Any]
    status: int = 200


View = Callable[[Mapping[str, str]], WebPage]
"""Reads what an address names, in its path or behind its question mark, and changes nothing."""


class Site(NamedTuple):
    """How the pages of one server, or of one exported folder, are reached."""

    project: str
    """Name of the project's folder."""
    writes: bool = False
    """Whether a page offers what changes something."""
    form_key: str = ""
    depth: int | None = None
    """Folders above the page in an exported copy; None: served."""
    exported: frozenset[str] = frozenset()
    """Addresses that the copy has."""
    is_bare: bool = False
    """Whether only the view itself is made, without menu and frame."""

    @property
    def layout(self) -> str:
        """Return the template around each view."""
        return "web/bare.html" if self.is_bare else "web/page.html"

    @property
    def is_live(self) -> bool:
        """Whether a server answers."""
        return self.depth is None

    def link(self, *parts: str, **query: str | None) -> str:
        """Return the address of a page; empty where an exported copy does not have it."""
        path = "/".join(quote(part, safe="") for part in parts)
        if self.depth is None:
            asked = urlencode({key: value for key, value in query.items() if value is not None})
            return f"/{path}?{asked}" if asked else f"/{path}"
        address = "/".join(parts)
        if address not in self.exported:
            return ""
        return "../" * self.depth + quote(name_file(address))

    def link_static(self, name: str) -> str:
        """Return the address of a file that all pages share."""
        if self.depth is None:
            return f"/static/{digest_static(name)}/{name}"
        return "../" * self.depth + f"static/{name}"

    def fill(self, page: WebPage) -> str:
        """Return the HTML of a page."""
        html = fill_template(
            f"web/{page.template}",
            site=self,
            sections=SECTIONS,
            scripts=SCRIPTS.get(page.section, ()) if self.is_live else (),
            page_title=page.title,
            section=page.section,
            **page.values,
        )
        return html if self.is_live else _NO_PAGE.sub(r"\1", html)


def name_file(address: str) -> str:
    """Return the file of an exported page below the folder; every letter is harmless there."""
    safe = "/".join(re.sub(r"[^A-Za-z0-9_.-]", "_", part) for part in address.split("/"))
    return f"{safe or 'index'}.html"


@lru_cache(maxsize=8)
def read_static(name: str) -> bytes | None:
    """Return a file that all pages share; None if there is none of that name."""
    if name == "style.css":
        return fill_template("web/style.css").encode()
    known = {"icon.svg", "LICENSES.txt"}.union(*SCRIPTS.values())
    return (_STATIC / name).read_bytes() if name in known else None


@lru_cache(maxsize=8)
def digest_static(name: str) -> str:
    """Return the beginning of a file's digest, so that a browser keeps it until it changes."""
    return hashlib.sha256(read_static(name) or b"").hexdigest()[:12]
