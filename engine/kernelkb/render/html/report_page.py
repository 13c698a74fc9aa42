"""Builds the page of a report: each kernel with its causes, time, source and machine code.

``actions.advice.report_page`` collects what it shows as ``ReportContents``, plain data.
The page needs no network and no script, and forbids both: what a report contains stays text.
Code that does not fit into the page's size is left out by samples, and the page says how much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelkb.decide.conditions import format_comparison
from kernelkb.render.html.charts import (
    Roofline,
    RooflinePoint,
    TimePart,
    list_time_parts,
    place_roofline,
)
from kernelkb.render.html.pages import count_bytes, cut_text, fill_template, format_share
from kernelkb.render.text.answers import describe_line, format_speedup
from kernelkb.render.text.steps import format_steps
from kernelkb.safety.untrusted_text import sanitize_text
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import (
        Diagnosis,
        KernelAnswer,
        Measure,
        NcuRuleEstimate,
    )
    from kernelkb.model.answers.source_place import SourceLine

_MAX_FILES = 6
_MAX_LINES = 500
"""Most lines of one file; a longer file is shown around the lines with samples."""
_CONTEXT_LINES = 3
_MAX_LINE_CHARS = 240
_MAX_SASS_CHARS = 160
_ROW_BYTES = 150
"""The tags around one line of source."""
_INSTRUCTION_BYTES = len("<tr><td></td><td></td><td></td><td></td></tr>")
_HEAT_BYTES = len(' class="h20"')
_TABLE_BYTES = len('<table class="sass"><tbody></tbody></table>')
_MORE_BYTES = len("<tr><td></td><td> more not shown</td></tr>")
_SOURCE_SHARE = 0.5
"""Of the size that is left, for the source; the rest is for the instructions."""
_MIN_SHARE = 0.0005
"""Smaller shares would show as zero."""
_MAX_OPEN = 40
"""Most instructions of the line that is shown open."""

Marks = Mapping[tuple[str, int], list[str]]
"""By file and line, what the diagnoses say of it."""

MAX_PAGE_BYTES = 2_000_000
"""The code that is shown of each kernel is cut so that the page stays below."""
_MAX_CODE_BYTES = 400_000
"""Of one kernel."""
_MIN_CODE_BYTES = 4_000
_CODE_FRAME_BYTES = 400
"""Of a kernel, the heading of its code and what is said of it."""


class SassLine(NamedTuple):
    """One instruction."""

    offset: int
    """In bytes, from the function's start."""
    text: str
    share: float
    """Of the kernel's samples, 0 to 1."""
    stall: str | None
    """The most frequent reason of its samples to wait."""


class SourceRow(NamedTuple):
    """What was counted at one line."""

    share: float
    """Of the kernel's samples, 0 to 1."""
    stall: str | None
    """The most frequent reason of its samples to wait."""
    instructions: tuple[SassLine, ...]
    """In the order of their addresses."""


class PageSource(NamedTuple):
    """A file that instructions of the kernel come from."""

    path: str
    text: tuple[str, ...]
    """Its lines; empty where the report does not contain them."""
    rows: Mapping[int, SourceRow]
    """By the number of the line, from 1."""

    @property
    def share(self) -> float:
        """Share of the kernel's samples that lie in the file."""
        return sum(row.share for row in self.rows.values())


class KernelCode(NamedTuple):
    """The code of a kernel, and where its samples lie."""

    counted: str
    """What the shares are of: ``samples``, or ``executed instructions`` without samples."""
    files: tuple[PageSource, ...]
    """The one with the largest share first."""
    unplaced: SourceRow
    """Instructions without a line."""
    outside: float
    """Share of the samples in functions that the kernel calls, which are not shown."""
    instruction_count: int


class KernelSection(NamedTuple):
    """All about one kernel."""

    answer: KernelAnswer
    launch_count: int
    """Of this kernel and shape in the report."""
    shape: tuple[str, str]
    """Grid and block."""
    roofline: RooflinePoint | None
    code: KernelCode | None
    missing: str = ""
    """Why there is no code."""


class ReportContents(NamedTuple):
    """One page."""

    report: str
    """Name of the file."""
    devices: tuple[str, ...]
    """As the driver names them."""
    launch_count: int
    """In the report."""
    kernel_count: int
    """Kernels and shapes in the report."""
    total_us: float
    """Of all launches."""
    sections: tuple[KernelSection, ...]
    """Those that take the most time first."""
    knowledge: str
    """Version and hash of the knowledge."""


class ShownInstruction(NamedTuple):
    """One row of a table of instructions, as text."""

    offset: str
    text: str
    share: str
    stall: str
    heat: str
    """Between 0.00 and 1.00; empty for a cold one."""

    def count_bytes(self) -> int:
        """Return the size of its row in the page."""
        return _INSTRUCTION_BYTES + bool(self.heat) * _HEAT_BYTES + count_bytes("".join(self[:4]))


class ShownTable(NamedTuple):
    """The instructions of a line, or of none."""

    instructions: tuple[ShownInstruction, ...]
    missing: int
    """Instructions that did not fit."""

    def count_bytes(self) -> int:
        """Return its size in the page."""
        more = _MORE_BYTES + len(str(self.missing)) if self.missing else 0
        return _TABLE_BYTES + more + sum(one.count_bytes() for one in self.instructions)


class ShownRow(NamedTuple):
    """One line of source."""

    line: int
    anchor: str
    folded: int
    """Lines before it that are not shown."""
    heat: str
    share: str
    text: str
    stall: str
    marks: list[str]
    """What diagnoses say of it."""
    table: ShownTable | None
    """None without instructions, or where they did not fit."""
    is_open: bool


class ShownFile(NamedTuple):
    """A file, with those of its lines that are shown."""

    path: str
    share: float
    has_text: bool
    rows: tuple[ShownRow, ...]
    folded: int
    """Lines after the last one that are not shown."""


class ShownCode(NamedTuple):
    """The code of one kernel."""

    said: str
    """Of what the shares are, and what is left out."""
    files: tuple[ShownFile, ...]
    unplaced: ShownTable | None
    """Instructions without a line; None without any."""
    unplaced_share: float


class _Tables(NamedTuple):
    """The instructions that are shown."""

    by_line: dict[tuple[str, int], ShownTable]
    unplaced: ShownTable | None

    def count_instructions(self) -> int:
        tables = [*self.by_line.values(), *([self.unplaced] if self.unplaced else [])]
        return sum(len(table.instructions) for table in tables)


def list_marks(answer: KernelAnswer) -> dict[tuple[str, int], list[str]]:
    """Return by file and line what the diagnoses of a kernel say of it, the first one first."""
    marks: dict[tuple[str, int], list[str]] = {}
    for diagnosis in answer["diagnoses"]:
        lines = diagnosis["lines"]["lines"] if diagnosis["lines"] else []
        for line in lines:
            said = f"{diagnosis['bottleneck']}: {line['share']:.0%} of {line['of']}"
            marks.setdefault((line["at"]["file"], line["at"]["line"]), []).append(said)
    return marks


def name_anchors(number: int, code: KernelCode) -> dict[str, str]:
    """Return for each file that is shown the beginning of the anchors of its lines."""
    return {file.path: f"k{number}-f{at}-" for at, file in enumerate(code.files[:_MAX_FILES])}


def choose_code(number: int, code: KernelCode, marks: Marks, max_bytes: int) -> ShownCode:
    """Return the files of a kernel, line by line, with the instructions of each.

    Args:
        number: Of the kernel, for the anchors.
        code: What to show.
        marks: Lines that diagnoses point at; they are always shown.
        max_bytes: Size that is left for it.
    """
    files = code.files[:_MAX_FILES]
    chosen = _choose_lines(files, marks, int(max_bytes * _SOURCE_SHARE))
    tables = _choose_instructions(code, files, marks, int(max_bytes * (1 - _SOURCE_SHARE)))
    top = _find_largest_share(files)
    anchors = name_anchors(number, code)
    shown = [
        _show_file(file, anchors[file.path], chosen[file.path], tables, marks, top)
        for file in files
    ]
    said = _describe_code(code, tables.count_instructions())
    return ShownCode(said, tuple(shown), tables.unplaced, code.unplaced.share)


def _describe_code(code: KernelCode, shown: int) -> str:
    told = [f"Shares are of the {code.counted} of this kernel; a line opens to its instructions."]
    if shown < code.instruction_count:
        told.append(
            f"To keep the page small, {shown:,} of {code.instruction_count:,} instructions are "
            f"shown: those of the lines with the most {code.counted}."
        )
    if len(code.files) > _MAX_FILES:
        left = sum(file.share for file in code.files[_MAX_FILES:])
        told.append(f"{len(code.files) - _MAX_FILES} further files have {format_share(left)}.")
    if code.outside:
        told.append(f"{format_share(code.outside)} lie in functions that it calls.")
    return " ".join(told)


def _rank_rows(
    files: Iterable[PageSource], marks: Marks
) -> list[tuple[tuple[str, int], SourceRow]]:
    """Return the lines with instructions: those of diagnoses first, then by samples."""
    rows = [((file.path, line), row) for file in files for line, row in file.rows.items()]
    return sorted(rows, key=lambda one: (one[0] not in marks, -one[1].share, one[0]))


def _choose_lines(
    files: Iterable[PageSource], marks: Marks, max_bytes: int
) -> dict[str, list[int]]:
    """Return for each file the lines to show, in order."""
    by_path = {file.path: file for file in files}
    chosen: dict[str, set[int]] = {path: set() for path in by_path}
    left = max_bytes
    for (path, line), _ in _rank_rows(by_path.values(), marks):
        file, lines = by_path[path], chosen[path]
        around = range(line - _CONTEXT_LINES, line + _CONTEXT_LINES + 1)
        if not lines and len(file.text) <= _MAX_LINES // 2:
            around = range(1, len(file.text) + 1)  # a short file is shown as a whole
        new = [at for at in (line, *around) if at not in lines and _is_shown(file, at, line)]
        for at in dict.fromkeys(new):
            cost = _ROW_BYTES + count_bytes(_get_text(file, at))
            if cost <= left and len(lines) < _MAX_LINES:
                lines.add(at)
                left -= cost
    return {path: sorted(lines) for path, lines in chosen.items()}


def _is_shown(file: PageSource, at: int, line: int) -> bool:
    """Whether a line near one with instructions exists; of an unknown text only that one."""
    return at == line or 1 <= at <= len(file.text)


def _get_text(file: PageSource, line: int) -> str:
    """Return the text of a line, escaped; empty where it is unknown."""
    return cut_text(file.text[line - 1] if 0 < line <= len(file.text) else "", _MAX_LINE_CHARS)


def _show_file(
    file: PageSource, anchor: str, lines: Iterable[int], tables: _Tables, marks: Marks, top: float
) -> ShownFile:
    """Return a file with the lines that were chosen; the first marked line is open."""
    rows, before, first = [], 0, next(iter(marks), None)
    for line in lines:
        key, row = (file.path, line), file.rows.get(line)
        heat = _format_heat(row.share, top) if row else ""
        table = tables.by_line.get(key)
        shown = ShownRow(
            line,
            anchor=f"{anchor}{line}",
            folded=max(line - before - 1, 0) if file.text else 0,
            heat=heat,
            share=format_share(row.share) if row and heat else "",
            text=_get_text(file, line),
            stall=cut_text(row.stall, 40) if row and row.stall and heat else "",
            marks=marks.get(key, []),
            table=table,
            is_open=key == first and row is not None and len(row.instructions) <= _MAX_OPEN,
        )
        rows.append(shown)
        before = line
    return ShownFile(
        file.path, file.share, bool(file.text), tuple(rows), max(len(file.text) - before, 0)
    )


def _find_largest_share(files: Iterable[PageSource]) -> float:
    """Return the largest share of a line."""
    return max((row.share for file in files for row in file.rows.values()), default=0.0)


def _format_heat(share: float, top: float) -> str:
    """Return how hot a line or instruction is by its share of samples; empty for a cold one."""
    return f"{share / top:.2f}" if top and share >= _MIN_SHARE else ""


def _choose_instructions(
    code: KernelCode, files: Sequence[PageSource], marks: Marks, max_bytes: int
) -> _Tables:
    """Return tables of the instructions of as many lines as fit, in the order of their samples."""
    left, top = max_bytes, _find_largest_share(files)
    by_line: dict[tuple[str, int], ShownTable] = {}
    for key, row in _rank_rows(files, marks):
        table = _choose_table(row, top, left)
        if table:
            by_line[key] = table
            left -= table.count_bytes()
    return _Tables(by_line, _choose_table(code.unplaced, top, left))


def _choose_table(row: SourceRow, top: float, max_bytes: int) -> ShownTable | None:
    """Return a line's instructions: those with samples, if too many; None where none fits."""
    left = max_bytes - _ROW_BYTES
    kept: dict[int, ShownInstruction] = {}
    for one in sorted(row.instructions, key=lambda one: (-one.share, one.offset)):
        shown = _show_instruction(one, top)
        if (size := shown.count_bytes()) > left:
            break
        kept[one.offset] = shown
        left -= size
    if not kept:
        return None
    rows = [kept[one.offset] for one in row.instructions if one.offset in kept]
    return ShownTable(tuple(rows), len(row.instructions) - len(kept))


def _show_instruction(one: SassLine, top: float) -> ShownInstruction:
    share = format_share(one.share) if one.share >= _MIN_SHARE else ""
    return ShownInstruction(
        f"{one.offset:04x}",
        text=cut_text(one.text, _MAX_SASS_CHARS),
        share=share,
        stall=cut_text(one.stall, 40) if one.stall and share else "",
        heat=_format_heat(one.share, top),
    )


class KernelView(NamedTuple):
    """A kernel as the template takes it."""

    number: int
    name: str
    answer: KernelAnswer
    launch: str
    """Time, launches, share and shape, in words."""
    parts: list[TimePart]
    roofline: Roofline | None
    matches: list[Diagnosis]
    unknown: list[Diagnosis]
    """Causes that stay possible."""
    first_line: SourceLine | None
    """Of the first cause, the line with the largest share."""
    anchors: Mapping[str, str]
    """By file that is shown, the beginning of the anchors of its lines."""
    steps: list[str]
    """What comes next."""
    measurements: Mapping[str, list[Measure]]
    """By command, what it measures."""
    ncu_rules: list[NcuRuleEstimate]
    """Those of Nsight Compute with an estimate, the largest share of the kernel first."""
    code: ShownCode | None
    missing: str
    """Why there is no code."""


def format_report_page(contents: ReportContents) -> str:
    """Return the page; texts are those of the report, as they are."""
    return fill_template("report.html", **list_page_values(contents))


def list_page_values(contents: ReportContents) -> dict[str, Any]:
    """Return what the template of a page of a report names, with as much code as fits."""
    bare = [show_kernel(at, section) for at, section in enumerate(contents.sections, 1)]
    empty = fill_template("report.html", **_list_values(contents, bare))
    taken = count_bytes(empty) + _CODE_FRAME_BYTES * len(bare)
    each = max((MAX_PAGE_BYTES - taken) // max(len(bare), 1), _MIN_CODE_BYTES)
    shown = [
        one._replace(code=_choose_code(one.number, section, min(each, _MAX_CODE_BYTES)))
        for one, section in zip(bare, contents.sections, strict=True)
    ]
    return _list_values(contents, shown)


def _list_values(contents: ReportContents, kernels: Sequence[KernelView]) -> dict[str, Any]:
    return {
        "contents": contents,
        "kernels": kernels,
        "left_count": contents.kernel_count - len(kernels),
        "left_share": max(1 - sum(one.answer["share"] or 0.0 for one in kernels), 0.0),
        **list_kernel_functions(),
    }


def list_kernel_functions() -> dict[str, Any]:
    """Return the functions that the template of a kernel calls."""
    return {
        "compare": format_comparison,
        "say": str,
        "describe_line": describe_line,
        "speedup": format_speedup,
        "get_file_name": lambda path: PurePath(path).name,
    }


def _choose_code(number: int, section: KernelSection, max_bytes: int) -> ShownCode | None:
    if section.code is None:
        return None
    return choose_code(number, section.code, list_marks(section.answer), max_bytes)


def show_kernel(number: int, section: KernelSection) -> KernelView:
    """Return a kernel as the template takes it, without its code."""
    answer = section.answer
    matches = [one for one in answer["diagnoses"] if one["verdict"] == "matches"]
    lines = matches[0]["lines"]["lines"] if matches and matches[0]["lines"] else []
    return KernelView(
        number,
        name=answer["kernel"] or "unnamed kernel",
        answer=answer,
        launch=_describe_launch(section),
        parts=list_time_parts(answer["time"] or ()),
        roofline=place_roofline(section.roofline) if section.roofline else None,
        matches=matches,
        unknown=[one for one in answer["diagnoses"] if one["verdict"] != "matches"],
        first_line=lines[0] if lines else None,
        anchors=name_anchors(number, section.code) if section.code else {},
        steps=format_steps(answer["next"]),
        measurements=_group_measurements(answer),
        ncu_rules=sorted(
            (rule for rule in answer["ncu_rules"] if rule["removes"]),
            key=lambda rule: (rule["scope"] != "kernel", -(rule["removes"] or 0.0)),
        ),
        code=None,
        missing=section.missing,
    )


def _describe_launch(section: KernelSection) -> str:
    told: list[str] = []
    duration, share = section.answer["duration_us"], section.answer["share"]
    if duration is not None:
        told.append(format_duration(duration))
    if section.launch_count > 1:
        told.append(f"the longest of {section.launch_count} launches")
    if share is not None:
        told.append(f"{format_share(share)} of the report's time")
    names = zip(("grid", "block"), section.shape, strict=True)
    told += [f"{name} {sanitize_text(size, 40)}" for name, size in names if size]
    return ", ".join(told)


def _group_measurements(answer: KernelAnswer) -> dict[str, list[Measure]]:
    """Return what to measure next, by the command that does."""
    commands: dict[str, list[Measure]] = {}
    for row in answer["measure_next"]:
        commands.setdefault(row["command"], []).append(row)
    return commands
