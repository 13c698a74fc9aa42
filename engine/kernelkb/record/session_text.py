"""The text of a session's file: Markdown around records in YAML, formatted and parsed.

The file has YAML front matter, then one section per entry: a heading, a few lines for people, and
the record in a fenced YAML block. Loading ignores everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import yaml

from kernelkb.errors import Problem, SessionError
from kernelkb.loading.located import Loc, Marks, locate_problem, parse_yaml
from kernelkb.model.base import Record
from kernelkb.model.records.session import (
    ChecklistMark,
    Decision,
    PlannedPhase,
    Session,
    SessionEntry,
    Step,
)
from kernelkb.units import describe_time_budget

_BREAK_CHARACTERS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]+")
_MARKDOWN_MARKS = re.compile(r"([\\|<*])")
_MAX_LENGTH = 300

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

_CLOSING_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*")
_CLAIM_TEXT = {True: "holds", False: "does not hold", None: "cannot be judged"}


@lru_cache(maxsize=256)
def parse_session(text: str, display_path: str, name: str | None = None) -> Session:
    """Parse the text of a session's file; the same text once, which takes 5 ms.

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


@lru_cache(maxsize=512)
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


def format_decision_outcome(decision: Decision) -> Iterator[str]:
    """Yield predicted speedup, measured speedup and falsifier, as far as each is present."""
    if decision.predicted:
        low, point, high = decision.predicted
        yield f"predicted {point:.3g}x [{low:.3g}, {high:.3g}]"
    if decision.measured is not None:
        measured = f"measured {decision.measured:.3g}x"
        if decision.interval:
            low, high = decision.interval
            measured += f" [{low:.3g}, {high:.3g}]"
        yield measured
    if decision.falsifier:
        yield describe_falsifier(decision)


def describe_falsifier(decision: Decision) -> str:
    """Return the falsifier and its result.

    ``falsifier held: occupancy 0.6 >= 0.5``, ``falsifier failed: …``, or neither word when it was
    not measured.
    """
    word = {True: " held:", False: " failed:", None: ""}[decision.falsifier_held]
    return f"falsifier{word} {decision.falsifier}"


def format_title(session: Session) -> str:
    """Return the heading of the file."""
    return f"# {_escape_line(session.goal)}"


def format_plan_lines(phases: tuple[PlannedPhase, ...], gates: Mapping[str, str]) -> Iterator[str]:
    """Yield a plan as a table with one checkbox for each gate; no line for an empty plan.

    Args:
        phases: The plan.
        gates: Gate id to its question; a gate without a question shows its id only.
    """
    if not phases:
        return
    yield "| phase | time | gate | asks | passed |"
    yield "|---|---|---|---|---|"
    for phase in phases:
        first = (phase.phase, describe_time_budget(phase.budget_min, phase.predicted_min))
        for gate in phase.gates:
            yield _format_row(*first, gate, gates.get(gate, ""), "[ ]")
            first = ("", "")
        if not phase.gates:
            yield _format_row(*first, "", "", "[ ]")


def format_entry_title(entry: SessionEntry) -> str:
    """Return the heading of an entry: its time in UTC, the command that wrote it, its goal."""
    verb = f"{_escape_line(entry.by)}: " if entry.by else ""
    at = entry.at.astimezone(UTC) if entry.at.tzinfo else entry.at
    return f"## {at:%Y-%m-%d %H:%M} UTC, {verb}{_escape_line(entry.goal)}"


def format_entry_paragraphs(entry: SessionEntry) -> Iterator[str]:
    """Yield two paragraphs, each when not empty: a table of steps, and a list of findings."""
    if entry.steps:
        rows = (_format_step_row(step) for step in entry.steps)
        yield "\n".join(("| step | variant | | found | s |", "|---|---|---|---|---:|", *rows))
    said = [
        *(
            f"- decided: {_escape_line(_describe_decision(decision))}"
            for decision in entry.decisions
        ),
        *(f"- wrong: {_escape_line(line)}" for line in entry.went_wrong),
        *(f"- right: {_escape_line(line)}" for line in entry.went_right),
        *(f"- a pattern? {_escape_line(line)}" for line in entry.pattern_candidates),
        *(f"- checklist: {_escape_line(_describe_mark(mark))}" for mark in entry.marks),
        *(
            f"- {_CLAIM_TEXT[claim.held]}: {_escape_line(claim.said)}: {_escape_line(claim.why)}"
            for claim in entry.claims
        ),
    ]
    if entry.cost_usd is not None:
        said.append(f"- cost: {entry.cost_usd:.2f} USD")
    if entry.closes:
        said.append("- the session ends here")
    if said:
        yield "\n".join(said)


def _describe_mark(mark: ChecklistMark) -> str:
    said = {True: " passed", False: " failed", None: ""}[mark.passed]
    return f"{mark.item}{said}{f', {mark.note}' if mark.note else ''}"


def _format_step_row(step: Step) -> str:
    return _format_row(
        step.name, step.variant or "", step.status, step.found, f"{step.seconds:.1f}"
    )


def _describe_decision(decision: Decision) -> str:
    tried = f"applied as {decision.applied_as}" if decision.applied_as else "not tried"
    return "; ".join(
        (f"{decision.fix} for {decision.bottleneck}, {tried}", *format_decision_outcome(decision))
    )


def _format_row(*cells: str) -> str:
    return f"| {' | '.join(_escape_line(cell) for cell in cells)} |"


def _escape_line(text: str) -> str:
    """Return text as one line, cut after 300 characters, with Markdown characters escaped.

    Escaping ``<`` also keeps the text from containing a marker of the session file.
    """
    line = _BREAK_CHARACTERS.sub(" ", text).strip()
    if len(line) > _MAX_LENGTH:
        line = f"{line[:_MAX_LENGTH]}…"
    return _MARKDOWN_MARKS.sub(r"\\\1", line)


class _SessionDumper(yaml.SafeDumper):
    """Writes YAML that ``kernelkb.loading.located`` accepts."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the loader rejects aliases
        return True


def _represent_str(dumper: _SessionDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _NUMBER_LIKE.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_SessionDumper.add_representer(str, _represent_str)


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


class _YamlBlock(NamedTuple):
    """A fenced block of YAML at the top level of the file."""

    opening_line: int
    """Line number of its opening fence, from 0."""
    lines: list[str]
    heading_line: int | None
    """Line number of the heading above it, from 0; None without a heading."""
    is_closed: bool


def _split_lines(text: str) -> list[str]:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _parse_front_matter(
    lines: list[str], display_path: str, name: str | None
) -> tuple[Session | None, int, list[Problem]]:
    """Return the session without entries, the number of lines of its header, and the problems."""
    if lines[0].rstrip() != "---":
        message = (
            "begins with no front matter; write --- in the first line, then session: and so on"
        )
        return None, 0, [Problem(display_path, 1, 1, "file", message)]
    last = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if last is None:
        message = "the front matter has no end; write --- in a line of its own below it"
        return None, len(lines), [Problem(display_path, 1, 1, "file", message)]
    text = "\n".join(lines[1:last]) + "\n"
    session, marks, problems = parse_yaml(text, Session, display_path, 1, {"entries": ()})
    if session is None:
        return None, last + 1, problems
    problems = list(_check_time_zones(session, marks, display_path))
    if name is not None and session.session != name:
        message = f"the file is called {name}.md, so this is {name}"
        problems.append(locate_problem(display_path, marks, ("session",), message))
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
    block: _YamlBlock, display_path: str, session: str
) -> tuple[SessionEntry | None, list[Problem]]:
    line = block.opening_line + 1
    if not block.is_closed:
        message = "this block of YAML is never closed; write ``` in a line of its own below it"
        return None, [Problem(display_path, line, 1, "entry", message)]
    torn = next(
        (n for n, text in enumerate(block.lines) if text.startswith(("```", ENTRY_END))), None
    )
    if torn is not None:
        message = f"this block of YAML is not closed above line {line + torn + 1}; write ``` there"
        return None, [Problem(display_path, line, 1, "entry", message)]
    text = "\n".join(block.lines) + "\n"
    entry, marks, problems = parse_yaml(
        text, SessionEntry, display_path, line, {"session": session}
    )
    if entry is not None:
        problems += _check_time_zones(entry, marks, display_path)
    return entry, problems


def _check_one_block_per_heading(blocks: list[_YamlBlock], display_path: str) -> Iterator[Problem]:
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
        yield Problem(display_path, block.opening_line + 1, 1, "entry", message)


def _check_entries_have_block(
    lines: list[str], start: int, blocks: list[_YamlBlock], display_path: str
) -> Iterator[Problem]:
    """Yield a problem for each written entry without a YAML block."""
    for mark, end in pairwise([*_find_entry_starts(lines, start), len(lines)]):
        if not any(mark < block.opening_line < end for block in blocks):
            message = "this entry has no block of YAML; write ```yaml above its record"
            yield Problem(display_path, mark + 1, 1, "entry", message)


def _check_time_zones(record: Record, marks: Marks, display_path: str) -> Iterator[Problem]:
    """Yield a problem for each time without a time zone, which cannot be sorted."""
    for loc, value in _iter_times(record, ()):
        if value.tzinfo is None:
            message = "has no time zone; end it with Z for UTC"
            yield locate_problem(display_path, marks, loc, message)


def _iter_times(value: Any, loc: Loc) -> Iterator[tuple[Loc, datetime]]:
    if isinstance(value, datetime):
        yield loc, value
    elif isinstance(value, Record):
        for name in type(value).model_fields:
            yield from _iter_times(getattr(value, name), (*loc, name))
    elif isinstance(value, tuple):
        for position, item in enumerate(value):
            yield from _iter_times(item, (*loc, position))
