"""Formats a session as the text of its Markdown file. No I/O.

The file has YAML front matter, then one section per entry: a heading, a few lines for people, and
the record in a fenced YAML block. Loading ignores everything else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from kernelkb.model.records.session import Session, SessionEntry
from kernelkb.record.session_page import (
    format_entry_paragraphs,
    format_entry_title,
    format_plan_lines,
    format_title,
)

ENTRY_BEGIN = "<!-- entry -->"
"""First line of a written entry."""
ENTRY_END = "<!-- end of entry -->"
"""Last line of a written entry. Neither marker can occur inside an entry: its prose has ``<``
escaped, and its YAML is dumped with every continued line indented."""

_BEGIN_LINE = f"\n{ENTRY_BEGIN}\n".encode()
_END_LINE = f"\n{ENTRY_END}".encode()
_GENERATED_LINE = re.compile(rb"$|## |\||- |`{3,}yaml$| |[a-z_]+:( |$)")
_OPENING_FENCE = re.compile(rb"^(`{3,})yaml$", re.MULTILINE)
_NUMBER_LIKE = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+|\s*%)")
_UNICODE_BREAKS = "\x85\u2028\u2029"


class _SessionDumper(yaml.SafeDumper):
    """Writes YAML that ``kernelkb.loading.located`` accepts."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the loader rejects aliases
        return True


def _represent_str(dumper: _SessionDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _NUMBER_LIKE.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_SessionDumper.add_representer(str, _represent_str)


def format_session(session: Session, gates: Mapping[str, str] | None = None) -> str:
    """Return the file of a session; ``parse_session`` reads it back as the same session.

    Args:
        session: With all its entries.
        gates: The question that each gate of the plan asks, by its id; for people.
    """
    header = session.model_dump(mode="json", exclude_defaults=True, exclude={"entries"})
    text = f"---\n{_format_yaml(header)}---\n\n{format_title(session)}\n"
    plan = "\n".join(format_plan_lines(session.phases, gates or {}))
    text += f"\n{plan}\n" if plan else ""
    return text + "".join(format_entry(entry) for entry in session.entries)


def format_entry(entry: SessionEntry) -> str:
    """Return the text that an entry adds to its session's file."""
    block = _format_yaml(entry.model_dump(mode="json", exclude_defaults=True, exclude={"session"}))
    fence = "```"
    while fence in block:
        fence += "`"
    page = "\n\n".join(
        (format_entry_title(entry), *format_entry_paragraphs(entry), f"{fence}yaml\n{block}{fence}")
    )
    return f"\n{ENTRY_BEGIN}\n{page}\n{ENTRY_END}\n"


def find_torn_tail(body: bytes) -> int:
    """Return the offset of an entry that was cut off while it was written; else the file's length.

    Such a tail begins with the first line of an entry, neither its YAML block nor the entry is
    closed, and all its lines but the last have the form of generated lines. So text of a person at
    the end of the file is kept, and so is an entry whose markers were edited by hand.
    """
    start = body.rfind(_BEGIN_LINE)
    if start >= 0:
        tail = body[start:]
        fence = _OPENING_FENCE.search(tail)
        closed = _END_LINE in tail or (fence and _has_closing_fence(tail[fence.end() :], fence[1]))
        if not closed and all(
            map(_GENERATED_LINE.match, tail[len(_BEGIN_LINE) :].split(b"\n")[:-1])
        ):
            return start
    for size in range(len(_BEGIN_LINE) - 1, len("\n<!--"), -1):
        if body.endswith(_BEGIN_LINE[:size]):
            return len(body) - size
    return len(body)


def _has_closing_fence(rest: bytes, fence: bytes) -> bool:
    return re.search(rb"^ {0,3}" + fence + rb"`*[ \t]*$", rest, re.MULTILINE) is not None


def _format_yaml(plain: dict[str, Any]) -> str:
    """Return YAML that is read back unchanged, for all Unicode characters."""
    # The dumper writes these line breaks as they are, and the loader folds them into spaces.
    text = _dump_yaml(plain, allow_unicode=True)
    return (
        _dump_yaml(plain, allow_unicode=False)
        if any(mark in text for mark in _UNICODE_BREAKS)
        else text
    )


def _dump_yaml(plain: dict[str, Any], *, allow_unicode: bool) -> str:
    return str(
        yaml.dump(
            plain, Dumper=_SessionDumper, sort_keys=False, allow_unicode=allow_unicode, width=100
        )
    )
