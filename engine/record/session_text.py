"""Session records ⇄ the text of their Markdown file. Nothing here touches a file.

The file is YAML front matter, then one section for each entry: a heading, a few lines for people,
and the record in a fenced block. All else is prose, which loading passes over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from kernelkb.model.session import Entry, Session
from kernelkb.render.session_page import entry_page, entry_title, plan_lines, title

BEGIN = "<!-- entry -->"
"""The line that a written entry begins with."""
END = "<!-- end of entry -->"
"""The line that it ends with. Neither can stand inside of one: what is not YAML there has its
``<`` escaped, and YAML is dumped with every continued line indented."""

_FIRST = f"\n{BEGIN}\n".encode()
_LAST = f"\n{END}".encode()
_WRITTEN = re.compile(rb"$|## |\||- |`{3,}yaml$| |[a-z_]+:( |$)")
_OPENED = re.compile(rb"^(`{3,})yaml$", re.MULTILINE)
_NEARLY_A_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+|\s*%)")
_UNICODE_BREAKS = "\x85\u2028\u2029"


class _Dumper(yaml.SafeDumper):
    """Writes what ``kernelkb.loading.located`` takes without a complaint."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - an alias is what it refuses
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "'" if _NEARLY_A_NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dumped(session: Session, gates: Mapping[str, str] | None = None) -> str:
    """Return the file of a session, which ``parsed`` reads back as the same session.

    Args:
        session: Its entries are all of this session.
        gates: The question that each gate of the plan asks, by its id; for people.
    """
    header = session.model_dump(mode="json", exclude_defaults=True, exclude={"entries"})
    text = f"---\n{_yaml(header)}---\n\n{title(session)}\n"
    plan = "\n".join(plan_lines(session.phases, gates or {}))
    text += f"\n{plan}\n" if plan else ""
    return text + "".join(entry_text(entry) for entry in session.entries)


def entry_text(entry: Entry) -> str:
    """Return what appending an entry adds to its session's file."""
    block = _yaml(entry.model_dump(mode="json", exclude_defaults=True, exclude={"session"}))
    fence = "```"
    while fence in block:
        fence += "`"
    page = "\n\n".join((entry_title(entry), *entry_page(entry), f"{fence}yaml\n{block}{fence}"))
    return f"\n{BEGIN}\n{page}\n{END}\n"


def torn_at(body: bytes) -> int:
    """Return where the tail of a file begins that a writer could not finish; else its length.

    It begins with a written entry's first line, neither the record in it nor the entry is closed,
    and every line of it but the last is one that a writer writes. So what a person wrote at the end
    is no such tail, and neither is an entry that lost one of its two ends by hand.
    """
    start = body.rfind(_FIRST)
    if start >= 0:
        tail = body[start:]
        fence = _OPENED.search(tail)
        closed = _LAST in tail or (fence and _closed(tail[fence.end() :], fence[1]))
        if not closed and all(map(_WRITTEN.match, tail[len(_FIRST) :].split(b"\n")[:-1])):
            return start
    for size in range(len(_FIRST) - 1, len("\n<!--"), -1):
        if body.endswith(_FIRST[:size]):
            return len(body) - size
    return len(body)


def _closed(rest: bytes, fence: bytes) -> bool:
    return re.search(rb"^ {0,3}" + fence + rb"`*[ \t]*$", rest, re.MULTILINE) is not None


def _yaml(plain: dict[str, Any]) -> str:
    """Return YAML that reads back as it was, whatever its texts hold."""
    # The dumper writes these line breaks as they are, and the loader folds them into spaces.
    text = _dump(plain, bare=True)
    return _dump(plain, bare=False) if any(mark in text for mark in _UNICODE_BREAKS) else text


def _dump(plain: dict[str, Any], *, bare: bool) -> str:
    return str(yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=bare, width=100))
