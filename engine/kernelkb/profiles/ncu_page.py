"""Parses the page that Nsight Compute prints for people, as people paste it.

Each launch has a header with its name, grid and block, then sections of rows (title, unit, value)
and the messages of rules. What was around it stays there when it is copied: output of the program,
quotation marks of mails, tables of Markdown, comments behind values, lines that a terminal wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kernelkb.profiles.launch import (
    NcuRule,
    ProfiledLaunch,
    RawName,
    parse_cell_number,
    parse_rule_estimate,
)
from kernelkb.profiles.ncu_csv import TitledValue, iterate_lines, multiply_shape, pick_metrics
from kernelkb.profiles.program_tables import pick_own_line

_QUOTE = re.compile(r"(?:\s{0,8}(?:[>|*]|#(?! SMs)|//)){1,8}(?=\s|$|\|)")
"""What mails, tables and comments put before a line."""
_ESCAPE = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_SHAPE = r"\((?P<{0}>\d{{1,10}}, {{0,3}}\d{{1,10}}, {{0,3}}\d{{1,10}})\)"
_HEADER = re.compile(
    rf"(?P<name>.*?){_SHAPE.format('grid')}x{_SHAPE.format('block')}"
    r"(?:, Context \w{1,20})?(?:, Stream \w{1,20})?(?:, Device \d{1,4})?"
    r"(?:, CC (?P<cc>\d{1,2}\.\d))?(?:, Invocations (?P<count>\d{1,12}))?$"
)
"""The page names the grid first; the invocations are those of ``--print-summary``."""
_OLD_HEADER = re.compile(
    r"(?P<name>.*?), \d{4}-\w{3}-\d{1,2} \d\d:\d\d:\d\d, Context \w{1,20}, Stream \w{1,20}$"
)
"""Of 2020 to 2022."""
_BEGINS_HEADER = re.compile(
    r"\(\d{1,10}, {0,3}\d{1,10}, {0,3}\d{1,10}\)x?(?:\(\d|$)|, \d{4}-\w{3}-\d{1,2} "
)
_SECTION = re.compile(r"\s{0,40}(?:={3,9} )?(?:Section:|Table Name ?:) {0,9}(?P<name>\S.*)")
_RULE = re.compile(r"\s{0,40}(?P<kind>OPT|INF|WRN) {1,9}(?P<text>\S.*)")
_FRAME = re.compile(
    r"\s{0,40}#\d{1,4} File \"(?P<file>[^\"]{1,400})\", line (?P<line>\d{1,9}), "
    r"in (?P<name>.{1,300})"
)
"""Of a stack of Python, which is printed before the sections, the outermost frame first."""
_ESTIMATE = re.compile(r"Est(?:\.|imated) (?P<local>Local )?Speedup: (?P<percent>[\d.,]{1,12}) ?%")
_NUMBER = r"[-+]?\d[\d.,]{0,40}(?:e[-+]?\d{1,3})?"
_ROW = re.compile(
    rf"\s{{0,40}}(?P<title>[A-Za-z#].{{0,160}}?)\s+(?:(?P<unit>[A-Za-z%][\w/%.]{{0,40}})\s+)?"
    rf"(?P<values>{_NUMBER}(?:\s+{_NUMBER}){{0,2}})(?:\s+(?:#|//|<|\().*)?$"
)
"""Title, unit and value, or the smallest, largest and mean of several launches."""
_UNFINISHED_ROW = re.compile(
    r"\s{1,40}[A-Za-z#][\w #%/().\[\]-]{0,160}?\s{2,160}[A-Za-z%][\w/%]{0,40}$"
)
_ABSENT = re.compile(r"\s{0,40}(?P<title>[\w.]{3,200})\s+(?:\S{1,40}\s+)?\(!\) (?:n/a|nan)$")
_DECIMAL_COMMA = re.compile(
    r"\s(?:\d{1,3}(?:\.\d{3}){1,6}|\d{1,18}),\d{1,2}$|\s\d{1,3}(?:\.\d{3}){2,6}$"
)
_DECIMAL_POINT = re.compile(r"\s[\d,]{0,24}\.\d{1,2}$")
_COLUMNS = re.compile(
    r"\s{0,9}\| {0,9}Metric(?: Name)? {0,99}\| {0,9}(?:Metric )?Unit {0,99}"
    r"\|(?P<names>.{1,4000})\|$"
)
"""The head of a table of Markdown that compares kernels, each in a column of its own."""
_HEADING = re.compile(r"\s{0,3}#{1,6} {1,9}(?P<name>\S.*)")
_SUMMARY_VALUES = 3
_TABLE_HEAD = "Metric Name"
_NO_NAME = "unnamed kernel"
_MAX_LINE_CHARS = 8000
"""Names of templates have thousands."""
_MAX_ROW_CHARS = 300
_MAX_NAME_LINES = 12
"""Of a name that was wrapped."""


class _Page:
    """What was read of one launch so far."""

    def __init__(self, header: re.Match[str], name: str) -> None:
        found = header.groupdict()
        self.name, self.cc = name, found.get("cc") or ""
        self.shape = tuple(f"({found[k]})" if found.get(k) else "" for k in ("grid", "block"))
        self.count = int(found.get("count") or 1)
        self.frames: list[str] = []
        self.rows: list[TitledValue] = []
        self.absent: list[str] = []
        self.rules: list[NcuRule] = []
        self.sections: set[str] = set()

    def begins_anew(self, section: str) -> bool:
        """Return whether a section without a header is of another launch than those before."""
        known = section in self.sections
        self.sections.add(section)
        return known and self.name == _NO_NAME


class _Message(NamedTuple):
    """A message of a rule, which may go on in the next line."""

    section: str
    words: list[str]


def is_printed_page(text: str) -> bool:
    """Return whether a text holds what Nsight Compute prints for people."""
    has_section = has_launch = False
    for line in map(_clean, iterate_lines(text)):
        has_section = has_section or bool(_SECTION.match(line))
        has_launch = has_launch or _TABLE_HEAD in line or bool(_BEGINS_HEADER.search(line))
        if has_section and has_launch:
            return True
    return any(map(_find_columns, iterate_lines(text)))


def read_printed_page(text: str, wanted: Sequence[RawName]) -> list[ProfiledLaunch]:
    """Return every launch of a printed page, in its order.

    A page without a header, as of a section that was copied, is a launch of an unnamed kernel; a
    section that comes again there is of another one. Of a table that compares kernels each column
    is one.

    Args:
        text: The page, with whatever is around it.
        wanted: Metrics to read, with their titles and raw names.
    """
    lines = [_clean(line) for line in iterate_lines(text)]
    if _has_decimal_commas(lines):
        lines = [_swap_separators(line) for line in lines]
    pages = list(_iterate_pages(lines))
    if not pages:
        columns = _read_columns(iterate_lines(text))
        return [ProfiledLaunch(name, pick_metrics(rows, wanted)) for name, rows in columns.items()]
    unnamed = [page for page in pages if page.name == _NO_NAME]
    for number, page in enumerate(unnamed if len(unnamed) > 1 else (), 1):
        page.name = f"unnamed-kernel-{number}"
    return [
        ProfiledLaunch(
            page.name,
            pick_metrics([*multiply_shape(*page.shape), *page.rows], wanted),
            shape=(page.shape[0], page.shape[1]),
            rules=tuple(page.rules),
            cc=page.cc,
            launch_count=page.count,
            called_by=pick_own_line(page.frames),
            absent=tuple(page.absent),
        )
        for page in pages
    ]


def _find_columns(line: str) -> list[str]:
    """Return the names of the kernels that a table compares; none in another line."""
    found = _COLUMNS.match(line[:_MAX_LINE_CHARS].rstrip())
    names = [cell.strip(" `*") for cell in found["names"].split("|")] if found else []
    return names if names != ["Metric Value"] else []


def _read_columns(lines: Iterable[str]) -> dict[str, list[TitledValue]]:
    """Return the rows of each kernel of the tables that compare kernels, by its name."""
    rows: dict[str, list[TitledValue]] = {}
    names: list[str] = []
    section = ""
    for line in lines:
        heading, cells = _HEADING.match(line), [cell.strip(" `*") for cell in line.split("|")[1:-1]]
        if heading:
            section, names = heading["name"].strip(), []
        elif begun := _find_columns(line):
            names = begun
        elif names and len(cells) == len(names) + 2:
            title, unit, *values = cells
            for name, value in zip(names, values, strict=True):
                rows.setdefault(name, []).append(TitledValue(section, title, unit, value))
        elif not cells:
            names = []
    return rows


def _clean(line: str) -> str:
    line = _ESCAPE.sub("", line[:_MAX_LINE_CHARS]).replace("\xa0", " ").replace("\t", "    ")
    quoted = _QUOTE.match(line)
    if quoted:
        line = "  " + line[quoted.end() :]
    return (line.replace(" | ", "  ").rstrip(" |") if "|" in line else line).rstrip()


def _has_decimal_commas(lines: Sequence[str]) -> bool:
    """Whether the numbers were printed as in German: 4.205.684 and 17,98."""
    commas = sum(bool(_DECIMAL_COMMA.search(line)) for line in lines)
    return commas > sum(bool(_DECIMAL_POINT.search(line)) for line in lines)


def _swap_separators(line: str) -> str:
    swapped = str.maketrans({",": ".", ".": ","})
    found = _ROW.match(line) if len(line) <= _MAX_ROW_CHARS else None
    if not found or _HEADER.match(line):
        return line
    at = found.start("values")
    return line[:at] + line[at:].translate(swapped)


def _iterate_pages(lines: Sequence[str]) -> Iterator[_Page]:
    page: _Page | None = None
    message: _Message | None = None
    section, at = "", 0
    while at < len(lines):
        line = lines[at]
        header, length = _find_header(lines, at)
        found = _SECTION.match(line)
        at += length or 1
        ends_message = bool(header or found or not line.strip() or line.lstrip().startswith("---"))
        rule = _RULE.match(line)
        if message and page and (ends_message or rule):
            page.rules.append(_build_rule(message))
            message = None
        if header:
            if page:
                yield page
            page, section = header, ""
        elif found:
            section = found["name"].strip()
            if page and page.begins_anew(section):
                yield page
                page = None
            if page is None:
                page = _Page(found, _NO_NAME)
                page.begins_anew(section)
        elif page is None:
            continue
        elif not section:
            page.frames += _read_frame(line)
        elif rule:
            message = _Message(section, [rule["text"]])
        elif message:
            message.words.append(line.strip())
        else:
            at += _read_row(page, section, line, lines[at] if at < len(lines) else "")
    if page:
        if message:
            page.rules.append(_build_rule(message))
        yield page


def _read_frame(line: str) -> list[str]:
    """Return a frame of Python, as a trace names it; nothing in another line."""
    found = _FRAME.fullmatch(line)
    return [f"{found['file']}({found['line']}): {found['name']}"] if found else []


def _read_row(page: _Page, section: str, line: str, following: str) -> int:
    """Append a row; return 1 if its value was in the next line, where a terminal wrapped it."""
    if len(line) > _MAX_ROW_CHARS:
        return 0
    if absent := _ABSENT.match(line):
        page.absent.append(absent["title"])
        return 0
    row, taken = _ROW.match(line), 0
    if not row and _UNFINISHED_ROW.match(line) and re.fullmatch(_NUMBER, following.strip()):
        row, taken = _ROW.match(f"{line}  {following.strip()}"), 1
    if row:
        values = row["values"].split()
        mean = values[-1] if len(values) == _SUMMARY_VALUES else values[0]
        page.rows.append(TitledValue(section, row["title"], row["unit"] or "", mean))
    return taken


def _find_header(lines: Sequence[str], at: int) -> tuple[_Page | None, int]:
    """Return the launch whose header begins in a line, and how many lines it takes."""
    line = lines[at]
    if not _BEGINS_HEADER.search(line):
        return None, 0
    for count in (1, 2, 3):
        part = lines[at : at + count]
        for joined in (line + "".join(part[1:]), " ".join(x.strip() for x in part)):
            if found := _HEADER.match(joined) or _OLD_HEADER.match(joined):
                return _Page(found, _complete_name(lines, at, found["name"])), len(part)
    return None, 0


def _complete_name(lines: Sequence[str], at: int, name: str) -> str:
    """Return a name with what a terminal wrapped to the lines before."""
    name = name.strip()
    for before in range(at - 1, max(-1, at - 1 - _MAX_NAME_LINES), -1):
        is_complete = name and name.count("(") == name.count(")")
        line = lines[before].strip()
        if is_complete or not line or line.startswith(("---", "==", "[")) or _RULE.match(line):
            break
        name = f"{line}{'' if name.startswith((',', ')')) else ' '}{name}".strip()
    return name


def _build_rule(message: _Message) -> NcuRule:
    text = " ".join(message.words)
    found = _ESTIMATE.search(text)
    if not found:
        return NcuRule(message.section, text, None, None)
    scope = "local" if found["local"] else "global"
    share = parse_cell_number(found["percent"].replace(",", "."))
    removes, where = parse_rule_estimate(share, scope)
    return NcuRule(message.section, _ESTIMATE.sub("", text).strip(), removes, where)
