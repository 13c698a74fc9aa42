"""The text of a session's file → the session, or every complaint at its own line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from kernelkb.errors import Problem, SessionError
from kernelkb.loading.located import Loc, Marks, at
from kernelkb.loading.located import parsed as parsed_yaml
from kernelkb.model.base import Record
from kernelkb.model.session import Entry, Session
from kernelkb.record.session_text import BEGIN, END

_CLOSING = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*")


class _Block(NamedTuple):
    """A fenced block of YAML at the top level of the file."""

    opened: int
    """Its opening line, from 0."""
    lines: list[str]
    section: int | None
    """The line of the heading that it stands under, from 0; None under none."""
    closed: bool


def parsed(text: str, shown_as: str, name: str | None = None) -> Session:
    """Read the text of a session's file.

    Args:
        text: The whole file.
        shown_as: The path to print in complaints.
        name: What the file is called; any by default.

    Raises:
        SessionError: Something in it is wrong. Carries every complaint, in the file's order.
    """
    lines = _lines(text)
    session, ends, problems = _header(lines, shown_as, name)
    entries: list[Entry] = []
    blocks = list(_blocks(lines, ends))
    for block in blocks:
        entry, wrong = _entry(block, shown_as, session.session if session else "unknown")
        problems += wrong
        if entry is not None:
            entries.append(entry)
    problems += [*_crowded(blocks, shown_as), *_bare(lines, ends, blocks, shown_as)]
    if problems or session is None:
        raise refusal(problems)
    return session.model_copy(update={"entries": tuple(entries)})


def header(text: str, shown_as: str, name: str | None = None) -> Session:
    """Read only the front matter; the session has no entries.

    Raises:
        SessionError: The front matter is wrong. Carries every complaint.
    """
    session, _ends, problems = _header(_lines(text), shown_as, name)
    if problems or session is None:
        raise refusal(problems)
    return session


def refusal(problems: list[Problem]) -> SessionError:
    """Return the error that says what is wrong in a file."""
    ordered = sorted(problems)
    return SessionError("\n".join(map(str, ordered)), ordered)


def _lines(text: str) -> list[str]:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _header(
    lines: list[str], shown: str, name: str | None
) -> tuple[Session | None, int, list[Problem]]:
    """Return the session without entries, the number of lines it takes, what is wrong."""
    if lines[0].rstrip() != "---":
        said = "begins with no front matter; write --- in the first line, then session: and so on"
        return None, 0, [Problem(shown, 1, 1, "file", said)]
    last = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if last is None:
        said = "the front matter has no end; write --- in a line of its own below it"
        return None, len(lines), [Problem(shown, 1, 1, "file", said)]
    text = "\n".join(lines[1:last]) + "\n"
    session, marks, problems = parsed_yaml(text, Session, shown, 1, {"entries": ()})
    if session is None:
        return None, last + 1, problems
    problems = list(_timeless(session, marks, shown))
    if name is not None and session.session != name:
        said = f"the file is called {name}.md, so this is {name}"
        problems.append(at(shown, marks, ("session",), said))
    return session, last + 1, problems


def _blocks(lines: list[str], start: int) -> Iterator[_Block]:
    """Yield the blocks of YAML below the front matter.

    A written entry is read apart from what stands above it, where somebody may have forgotten to
    close a block.
    """
    for first, end in pairwise([start, *_begins(lines, start), len(lines)]):
        yield from _fences(lines[first:end], first)


def _begins(lines: list[str], start: int) -> list[int]:
    return [n for n in range(start, len(lines)) if lines[n].rstrip() == BEGIN]


def _fences(lines: list[str], above: int) -> Iterator[_Block]:
    from markdown_it import MarkdownIt  # only wanted where a session is read

    section = None
    for token in MarkdownIt("commonmark").disable("inline").parse("\n".join(lines)):
        if token.level or not token.map:
            continue
        first, end = token.map
        if token.type == "heading_open" and token.tag == "h2":
            section = above + first
        elif token.type == "fence" and token.info.strip() == "yaml":
            closing = _CLOSING.fullmatch(lines[end - 1]) if end - 1 > first else None
            closed = closing is not None and closing[1].startswith(token.markup)
            body = lines[first + 1 : end - 1] if closed else lines[first + 1 : end]
            yield _Block(above + first, body, section, closed)


def _entry(block: _Block, shown: str, session: str) -> tuple[Entry | None, list[Problem]]:
    line = block.opened + 1
    if not block.closed:
        said = "this block of YAML is never closed; write ``` in a line of its own below it"
        return None, [Problem(shown, line, 1, "entry", said)]
    torn = next((n for n, text in enumerate(block.lines) if text.startswith(("```", END))), None)
    if torn is not None:
        said = f"this block of YAML is not closed above line {line + torn + 1}; write ``` there"
        return None, [Problem(shown, line, 1, "entry", said)]
    text = "\n".join(block.lines) + "\n"
    entry, marks, problems = parsed_yaml(text, Entry, shown, line, {"session": session})
    if entry is not None:
        problems += _timeless(entry, marks, shown)
    return entry, problems


def _crowded(blocks: list[_Block], shown: str) -> Iterator[Problem]:
    """Complain about blocks that are not alone under a heading."""
    seen: set[int] = set()
    for block in blocks:
        if block.section is None:
            said = "stands under no heading; write ## and what was done above it"
        elif block.section in seen:
            said = (
                f"is the second block of YAML under the heading of line {block.section + 1}; "
                "give it a heading of its own, or call it ```yml if it is no entry"
            )
        else:
            seen.add(block.section)
            continue
        yield Problem(shown, block.opened + 1, 1, "entry", said)


def _bare(lines: list[str], start: int, blocks: list[_Block], shown: str) -> Iterator[Problem]:
    """Complain about written entries that have no block any more."""
    for mark, end in pairwise([*_begins(lines, start), len(lines)]):
        if not any(mark < block.opened < end for block in blocks):
            said = "this entry has no block of YAML; write ```yaml above its record"
            yield Problem(shown, mark + 1, 1, "entry", said)


def _timeless(record: Record, marks: Marks, shown: str) -> Iterator[Problem]:
    """Complain about times without a time zone: nobody could sort them."""
    for loc, value in _times(record, ()):
        if value.tzinfo is None:
            said = "has no time zone; end it with Z for UTC"
            yield at(shown, marks, loc, said)


def _times(value: Any, loc: Loc) -> Iterator[tuple[Loc, datetime]]:
    if isinstance(value, datetime):
        yield loc, value
    elif isinstance(value, Record):
        for name in type(value).model_fields:
            yield from _times(getattr(value, name), (*loc, name))
    elif isinstance(value, tuple):
        for position, item in enumerate(value):
            yield from _times(item, (*loc, position))
