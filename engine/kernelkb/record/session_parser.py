"""Parses the text of a session's file; reports every mistake at its line and column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from kernelkb.errors import Problem, SessionError
from kernelkb.loading.located import Loc, Marks, locate_problem, parse_yaml
from kernelkb.model.base import Record
from kernelkb.model.records.session import Session, SessionEntry
from kernelkb.record.legacy_text import fill_entry
from kernelkb.record.session_text import ENTRY_BEGIN, ENTRY_END

_CLOSING_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*")


class _YamlBlock(NamedTuple):
    """A fenced block of YAML at the top level of the file."""

    opening_line: int
    """Line number of its opening fence, from 0."""
    lines: list[str]
    heading_line: int | None
    """Line number of the heading above it, from 0; None without a heading."""
    is_closed: bool


def parse_session(text: str, display_path: str, name: str | None = None) -> Session:
    """Parse the text of a session's file.

    Args:
        text: The whole file.
        display_path: The path to print in problems.
        name: The file's name without ``.md``, which has to be the session's id; None for any.

    Raises:
        SessionError: The file is invalid. Carries every problem, in the file's order.
    """
    lines = _split_lines(text)
    session, ends, problems = _parse_front_matter(lines, display_path, name)
    entries: list[SessionEntry] = []
    blocks = list(_iter_blocks(lines, ends))
    for block in blocks:
        entry, entry_problems = _parse_entry(
            block, display_path, session.session if session else "unknown"
        )
        problems += entry_problems
        if entry is not None:
            entries.append(entry)
    problems += [
        *_check_one_block_per_heading(blocks, display_path),
        *_check_entries_have_block(lines, ends, blocks, display_path),
    ]
    if problems or session is None:
        raise make_session_error(problems)
    return session.model_copy(update={"entries": tuple(entries)})


def parse_header(text: str, display_path: str, name: str | None = None) -> Session:
    """Parse only the front matter; the session has no entries.

    Raises:
        SessionError: The front matter is invalid. Carries every problem.
    """
    session, _ends, problems = _parse_front_matter(_split_lines(text), display_path, name)
    if problems or session is None:
        raise make_session_error(problems)
    return session


def make_session_error(problems: list[Problem]) -> SessionError:
    """Return the error that lists the problems of a file."""
    ordered = sorted(problems)
    return SessionError("\n".join(map(str, ordered)), ordered)


def _split_lines(text: str) -> list[str]:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _parse_front_matter(
    lines: list[str], shown: str, name: str | None
) -> tuple[Session | None, int, list[Problem]]:
    """Return the session without entries, the number of lines of its header, and the problems."""
    if lines[0].rstrip() != "---":
        message = (
            "begins with no front matter; write --- in the first line, then session: and so on"
        )
        return None, 0, [Problem(shown, 1, 1, "file", message)]
    last = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if last is None:
        message = "the front matter has no end; write --- in a line of its own below it"
        return None, len(lines), [Problem(shown, 1, 1, "file", message)]
    text = "\n".join(lines[1:last]) + "\n"
    session, marks, problems = parse_yaml(text, Session, shown, 1, {"entries": ()})
    if session is None:
        return None, last + 1, problems
    problems = list(_check_time_zones(session, marks, shown))
    if name is not None and session.session != name:
        message = f"the file is called {name}.md, so this is {name}"
        problems.append(locate_problem(shown, marks, ("session",), message))
    return session, last + 1, problems


def _iter_blocks(lines: list[str], start: int) -> Iterator[_YamlBlock]:
    """Yield the YAML blocks below the front matter.

    Each written entry is parsed separately, so that an unclosed block above does not swallow it.
    """
    for first, end in pairwise([start, *_find_entry_starts(lines, start), len(lines)]):
        yield from _iter_fenced_blocks(lines[first:end], first)


def _find_entry_starts(lines: list[str], start: int) -> list[int]:
    return [n for n in range(start, len(lines)) if lines[n].rstrip() == ENTRY_BEGIN]


def _iter_fenced_blocks(lines: list[str], above: int) -> Iterator[_YamlBlock]:
    from markdown_it import MarkdownIt  # slow to import

    section = None
    for token in MarkdownIt("commonmark").disable("inline").parse("\n".join(lines)):
        if token.level or not token.map:
            continue
        first, end = token.map
        if token.type == "heading_open" and token.tag == "h2":
            section = above + first
        elif token.type == "fence" and token.info.strip() == "yaml":
            closing = _CLOSING_FENCE.fullmatch(lines[end - 1]) if end - 1 > first else None
            closed = closing is not None and closing[1].startswith(token.markup)
            body = lines[first + 1 : end - 1] if closed else lines[first + 1 : end]
            yield _YamlBlock(above + first, body, section, closed)


def _parse_entry(
    block: _YamlBlock, shown: str, session: str
) -> tuple[SessionEntry | None, list[Problem]]:
    line = block.opening_line + 1
    if not block.is_closed:
        message = "this block of YAML is never closed; write ``` in a line of its own below it"
        return None, [Problem(shown, line, 1, "entry", message)]
    torn = next(
        (n for n, text in enumerate(block.lines) if text.startswith(("```", ENTRY_END))), None
    )
    if torn is not None:
        message = f"this block of YAML is not closed above line {line + torn + 1}; write ``` there"
        return None, [Problem(shown, line, 1, "entry", message)]
    text = "\n".join(block.lines) + "\n"
    entry, marks, problems = parse_yaml(text, SessionEntry, shown, line, {"session": session})
    if entry is not None:
        problems += _check_time_zones(entry, marks, shown)
        entry = fill_entry(entry)
    return entry, problems


def _check_one_block_per_heading(blocks: list[_YamlBlock], shown: str) -> Iterator[Problem]:
    """Yield a problem for each block that is not the only one under a heading."""
    seen: set[int] = set()
    for block in blocks:
        if block.heading_line is None:
            message = "stands under no heading; write ## and what was done above it"
        elif block.heading_line in seen:
            message = (
                f"is the second block of YAML under the heading of line {block.heading_line + 1}; "
                "give it a heading of its own, or call it ```yml if it is no entry"
            )
        else:
            seen.add(block.heading_line)
            continue
        yield Problem(shown, block.opening_line + 1, 1, "entry", message)


def _check_entries_have_block(
    lines: list[str], start: int, blocks: list[_YamlBlock], shown: str
) -> Iterator[Problem]:
    """Yield a problem for each written entry without a YAML block."""
    for mark, end in pairwise([*_find_entry_starts(lines, start), len(lines)]):
        if not any(mark < block.opening_line < end for block in blocks):
            message = "this entry has no block of YAML; write ```yaml above its record"
            yield Problem(shown, mark + 1, 1, "entry", message)


def _check_time_zones(record: Record, marks: Marks, shown: str) -> Iterator[Problem]:
    """Yield a problem for each time without a time zone, which cannot be sorted."""
    for loc, value in _iter_times(record, ()):
        if value.tzinfo is None:
            message = "has no time zone; end it with Z for UTC"
            yield locate_problem(shown, marks, loc, message)


def _iter_times(value: Any, loc: Loc) -> Iterator[tuple[Loc, datetime]]:
    if isinstance(value, datetime):
        yield loc, value
    elif isinstance(value, Record):
        for name in type(value).model_fields:
            yield from _iter_times(getattr(value, name), (*loc, name))
    elif isinstance(value, tuple):
        for position, item in enumerate(value):
            yield from _iter_times(item, (*loc, position))
