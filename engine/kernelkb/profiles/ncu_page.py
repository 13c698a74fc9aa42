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
_ABSENT = re.compile(
    r"\s{0,40}(?P<title>[\w.#](?:\S| (?! )){2,200}?)\s+(?:\S{1,40}\s+)?\(!\) (?:n/a|nan)$"
)
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
_HEAD = re.compile(r"\s{0,40}Metric Name\s+Metric Unit\s+Metric Value$")
_LINE_NUMBER = re.compile(r"\s{0,8}\d{1,6}(?:[:→] ?|\t)")
"""What tools that show files put before a line."""
_SIGNATURE = re.compile(r"\s{0,40}(?P<name>[A-Za-z_][\w:<>, ]{0,300}\([\w:<>,*&\[\] ]{0,3000}\))$")
"""A header of which only the function was kept, as a comment does."""
_BOLD = re.compile(r"\s{0,9}\*\*(?P<name>[^*]{1,60}?):?\*\*:?$")
_WAIT_RULE = re.compile(r"\beach warp of this \w{1,20} spends [\d.]{1,12} cycles being stalled\b")
"""The message of a rule that was copied without its section."""
_NO_NAME = "unnamed kernel"
_MAX_LINE_CHARS = 8000
"""Names of templates have thousands."""
_MAX_ROW_CHARS = 300
_MAX_RULE_LINES = 4
"""In which a message says what warps wait for."""
_MAX_NAME_LINES = 12
"""Of a name that was wrapped."""


class _Page:
    """What was read of one launch so far."""

    def __init__(self, header: re.Match[str], name: str) -> None:
        found = header.groupdict()
        self.name, self.cc, self.has_header = name, found.get("cc") or "", name != _NO_NAME
        self.shape = tuple(f"({found[k]})" if found.get(k) else "" for k in ("grid", "block"))
        self.count = int(found.get("count") or 1)
        self.frames: list[str] = []
        self.rows: list[TitledValue] = []
        self.absent: list[str] = []
        self.rules: list[NcuRule] = []
        self.sections: set[str] = set()
        self.label = ""
        """What stands in bold above a section without a header."""

    def begins_anew(self, section: str) -> bool:
        """Return whether a section without a header is of another launch than those before."""
        known = section in self.sections
        self.sections.add(section)
        return known and not self.has_header


class _Message(NamedTuple):
    """A message of a rule, which may go on in the next line."""

    section: str
    words: list[str]


def is_printed_page(text: str) -> bool:
    """Return whether a text holds what Nsight Compute prints for people."""
    has_section = has_launch = False
    for line in map(_clean, _iterate_numbered(text)):
        has_section = has_section or bool(_SECTION.match(line)) or bool(_HEAD.match(line))
        has_launch = has_launch or _TABLE_HEAD in line or _begins_launch(line)
        if has_section and has_launch:
            return True
    return any(map(_find_columns, iterate_lines(text))) or _holds_wait_rule(text)


def _begins_launch(line: str) -> bool:
    return bool(_BEGINS_HEADER.search(line) or _SIGNATURE.match(line))


def _holds_wait_rule(text: str) -> bool:
    """Whether a rule's message was copied alone: it says how long warps wait, and for what."""
    return "cycles being stalled" in text and bool(_WAIT_RULE.search(" ".join(text.split())))


def _iterate_numbered(text: str) -> Iterator[str]:
    """Yield lines, without the numbers that a tool put before them all."""
    has_numbers = any(
        _SECTION.match(line[found.end() :])
        for line in iterate_lines(text)
        if "Section:" in line and (found := _LINE_NUMBER.match(line))
    )
    for line in iterate_lines(text):
        found = _LINE_NUMBER.match(line) if has_numbers else None
        yield line[found.end() :] if found else line


def read_printed_page(text: str, wanted: Sequence[RawName]) -> list[ProfiledLaunch]:
    """Return every launch of a printed page, in its order.

    A page without a header, as of a section that was copied, is a launch of an unnamed kernel; a
    section that comes again there is of another one. Of a table that compares kernels each column
    is one.

    Args:
        text: The page, with whatever is around it.
        wanted: Metrics to read, with their titles and raw names.
    """
    lines = [_clean(line) for line in _iterate_numbered(text)]
    if _has_decimal_commas(lines):
        lines = [_swap_separators(line) for line in lines]
    pages = list(_iterate_pages(lines))
    if not any(page.rows or page.has_header for page in pages):
        without_pages = _read_without_pages(text, wanted, pages)
        if without_pages:
            return without_pages
    pages = _join_labelled(pages)
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


def _read_without_pages(
    text: str, wanted: Sequence[RawName], pages: Sequence[_Page]
) -> list[ProfiledLaunch]:
    """Return the launches of tables and lists, with what messages beside them say of one."""
    columns = _read_columns(iterate_lines(text))
    if columns:
        return [ProfiledLaunch(name, pick_metrics(rows, wanted)) for name, rows in columns.items()]
    listed = read_listed_metrics(text, wanted)
    rules = tuple(rule for page in pages for rule in page.rules)
    return [listed[0]._replace(rules=rules)] if len(listed) == 1 else listed


def _join_labelled(pages: Sequence[_Page]) -> list[_Page]:
    """Return pages, of those that a word in bold names alike only the first, with what all hold."""
    first: dict[str, _Page] = {}
    for page in pages:
        known = first.setdefault(page.label, page) if page.label else page
        if known is not page:
            known.rows += page.rows
            known.rules += page.rules
        elif page.label and page.name == _NO_NAME:
            page.name = page.label
    return [page for page in pages if not page.label or first[page.label] is page]


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
    section, label, at = "", "", 0
    while at < len(lines):
        line = lines[at]
        header, length = _find_header(lines, at)
        at += length or 1
        rule = _RULE.match(line)
        label = "" if header else _find_label(line, label)
        begun = header or _begin_page(page, lines, at - 1, section, label)
        found = None if header else _SECTION.match(line)
        if message and page and (header or found or rule or _ends_message(line)):
            page.rules.append(_build_rule(message))
            message = None
        if begun:
            if page:
                yield page
            page = begun
            section = "" if header else section
        if found:
            section = found["name"].strip()
        elif page is None or (begun and not rule):
            continue
        elif rule:
            message = _Message(section, [rule["text"]])
        elif message:
            message.words.append(line.strip())
        elif not section and page.has_header:
            page.frames += _read_frame(line)
        else:
            at += _read_row(page, section, line, lines[at] if at < len(lines) else "")
    if page:
        if message:
            page.rules.append(_build_rule(message))
        yield page


def _find_label(line: str, label: str) -> str:
    """Return what a line names in bold, or the word before."""
    bold = _BOLD.match(line)
    return bold["name"] if bold else label


def _ends_message(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("---")


def _begin_page(
    page: _Page | None, lines: Sequence[str], at: int, section: str, label: str
) -> _Page | None:
    """Return the launch that a line without a header begins: a section, a table or a message."""
    line = lines[at]
    if found := _SECTION.match(line):
        renamed = page is not None and not page.has_header and page.label != label
        name = found["name"].strip()
        if page and not page.begins_anew(name) and not renamed:
            return None
        begun = _Page(found, _find_signature(lines, at))
        begun.has_header, begun.label = False, label
        begun.begins_anew(name)
        return begun
    head = None if section or (page and page.has_header) else _HEAD.match(line)
    if head is None and page is None and (rule := _RULE.match(line)):
        head = rule if _holds_wait_rule("\n".join(lines[at : at + _MAX_RULE_LINES])) else None
    return _Page(head, _NO_NAME) if head else None


def _find_signature(lines: Sequence[str], at: int) -> str:
    """Return the function that the line before a section names alone, as comments keep it."""
    before = next((line for line in reversed(lines[max(0, at - 2) : at]) if line.strip()), "")
    found = _SIGNATURE.match(before)
    return found["name"] if found else _NO_NAME


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


_LEFT_OUT = {"per", "cache", "tex", "sm", "multiprocessor", "the", "warps", "warp"}
"""Words of titles that people leave out."""
_SAME_WORD = {"inst": "instruction", "mem": "memory"}
_SAME_TITLE = {
    "dram": "dram throughput",
    "dram peak": "dram throughput",
    "dram utilization": "dram throughput",
    "dram rate": "memory throughput",
    "occupancy": "achieved occupancy",
    "registers": "registers thread",
    "issue active": "issue slots busy",
    "ipc": "executed ipc active",
    "executed ipc": "executed ipc active",
}
_LEAST_LISTED = 3
"""Metrics that make a list a report: texts name one or two in passing (chosen)."""
_LISTED = re.compile(
    r"[~≈]?(?P<value>\d[\d.,]{0,40})\s{0,3}(?P<unit>[A-Za-zμµ%][\w/%]{0,20})?(?=$|[\s,;(])"
)
_TITLE_UNIT = re.compile(r"[,(\[] ?(?P<unit>%|[nmuμµ]?s|[KMGT]B(?:/s)?)[)\]]?$")
_LISTED_UNITS = {"GB": "Gbyte", "MB": "Mbyte", "KB": "Kbyte", "TB": "Tbyte"}
_BULLET = re.compile(
    r"\s{0,9}[-*•] {1,4}[`*\"]{0,4}(?P<title>[\w#][^:`|]{1,160}?)[`*\"]{0,4} ?[:=] ?(?P<value>\S.*)"
)
_BETWEEN_BULLETS = re.compile(r", (?=[A-Z][\w/ ]{2,60}:)")
_SIZES = re.compile(r"\(\d{1,10}(?:, ?\d{1,10}){2}\)")
_RULER = re.compile(r"\s{0,9}\|?[-:| ]{3,999}$")
_ASIDE = re.compile(r"\([^()]{0,80}\)|,.*")
_MARKUP = " `*"


class _Listed(NamedTuple):
    """A kernel whose metrics a text lists."""

    kernel: str
    label: str
    """Its name, and where it comes again the heading above it."""
    metrics: dict[str, float]


class _Titles:
    """Metrics by the words of their titles, as people write them."""

    def __init__(self, wanted: Sequence[RawName]) -> None:
        self.names = {name: one for one in wanted for name in one.names}
        self.metrics: dict[str, list[RawName]] = {}
        for one in wanted:
            for title in one.titles:
                self.metrics.setdefault(_join_words(title.partition("/")[2]), []).append(one)
        self.metrics.pop("", None)

    def read(self, title: str, cell: str) -> dict[str, float]:
        """Return the metric that a title and what stands beside it say; nothing in a remark."""
        found = _LISTED.match(cell)
        if not found:
            return {}
        number = parse_cell_number(found["value"].rstrip(".,"))
        if one := self.names.get(title):
            value = one.to_metric_unit(number, "")
            return {} if value is None else {one.metric: value}
        named = _TITLE_UNIT.search(title)
        unit = _spell_unit(found["unit"] or (named["unit"] if named else ""))
        whole = _join_words(_ASIDE.sub(" ", title))
        for words in (_join_words(title), whole, _SAME_TITLE.get(whole, "")):
            for one in self.metrics.get(words, ()):
                has_unit = unit == "%" if one.fits_unit("%") else unit or "_us" not in one.metric
                value = one.to_metric_unit(number, unit) if one.fits_unit(unit) else None
                if has_unit and value is not None:
                    return {one.metric: value}
        return {}


def _join_words(title: str) -> str:
    words = re.findall(r"[a-z0-9#]+", title.lower().replace("_", " "))
    return " ".join(_SAME_WORD.get(word, word) for word in words if word not in _LEFT_OUT)


def _spell_unit(unit: str) -> str:
    """Return a unit as ncu spells it."""
    unit = unit.replace("μ", "u").replace("µ", "u")
    return _LISTED_UNITS.get(unit[:2], unit[:2]) + unit[2:]


def read_listed_metrics(text: str, wanted: Sequence[RawName]) -> list[ProfiledLaunch]:
    """Return launches whose metrics a text lists; none in a text without them.

    These are tables of Markdown with a metric in each row and a kernel in each column, or the
    reverse, and lists of ``name: value``. A cell that does not begin with a number is a remark; a
    share needs its percent sign, and a time its unit; of a range neither end is taken.

    Args:
        text: A note, an issue or a log.
        wanted: Metrics to read, with their titles and raw names.
    """
    titles = _Titles(wanted)
    launches: list[_Listed] = []
    alone = _Listed("kernel", "kernel", {})
    table: list[list[str]] = []
    heading = ""
    for line in [*iterate_lines(text), ""]:
        if line.count("|") > 1:
            cells = [] if _RULER.match(line) else line.strip().strip("|").split("|")
            table += [[cell.replace("**", "").strip(_MARKUP) for cell in cells]] if cells else []
            continue
        for one in _read_table(table, titles):
            _add_listed(launches, alone, one, heading)
        table = []
        found = _HEADING.match(line)
        heading = found["name"].strip(_MARKUP) if found else heading
        alone = _read_bullet(line, titles, alone)
    read = [one for one in (*launches, alone) if len(one.metrics) >= _LEAST_LISTED]
    return [ProfiledLaunch(one.label, one.metrics) for one in read]


def _read_table(table: Sequence[Sequence[str]], titles: _Titles) -> list[_Listed]:
    """Return the kernels of a table; one that names none has a single column of values."""
    if len(table) < 2 or any(len(row) != len(table[0]) for row in table):
        return []
    columns = list(zip(*table, strict=True))
    ways = [
        [_read_cells(names, values, titles) for values in others]
        for names, others in ((columns[0], columns[1:]), (table[0], table[1:]))
    ]
    best = max(ways, key=lambda way: sum(len(one.metrics) for one in way))
    found = [one for one in best if one.metrics]
    is_single = len(found) == 1 and best is ways[0]
    return [one._replace(kernel="") for one in found] if is_single else found


def _read_cells(names: Sequence[str], values: Sequence[str], titles: _Titles) -> _Listed:
    waits = "stall " if "stall" in names[0].lower() else ""
    found: dict[str, float] = {}
    for title, cell in zip(names[1:], values[1:], strict=True):
        missing = "" if "stall" in title.lower() else waits
        found |= titles.read(f"{missing}{title}", cell)
    words = [cell for cell in values if cell and not _LISTED.match(cell)]
    return _Listed(" ".join(words[: 1 if values[0] in words[:1] and not waits else 2]), "", found)


def _add_listed(launches: list[_Listed], alone: _Listed, one: _Listed, heading: str) -> None:
    """Add a kernel, or what is new of one that was named before."""
    if not one.kernel:
        alone.metrics.update(one.metrics)
        return
    known = next((has for has in reversed(launches) if has.kernel == one.kernel), None)
    if known and not known.metrics.keys() & one.metrics.keys():
        known.metrics.update(one.metrics)
    else:
        launches.append(one._replace(label=f"{one.kernel} ({heading})" if known else one.kernel))


def _read_bullet(line: str, titles: _Titles, alone: _Listed) -> _Listed:
    """Return a kernel with what a line of a list says of it."""
    found = _BULLET.match(line)
    if not found:
        return alone
    title, value = found["title"].strip(_MARKUP), found["value"].strip(_MARKUP)
    if _join_words(title) in ("kernel", "kernel name"):
        return alone._replace(label=value)
    sizes = _SIZES.match(value)
    if sizes and _join_words(title) in ("grid size", "block size", "grid", "block"):
        value = next(multiply_shape(sizes[0], "")).value
        title = "launch__grid_size" if "grid" in title.lower() else "launch__block_size"
    for part in _BETWEEN_BULLETS.split(f"{title}: {value}"):
        name, _, cell = part.partition(":")
        alone.metrics.update(titles.read(name.strip(), cell.strip(_MARKUP)))
    return alone
