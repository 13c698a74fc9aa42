"""Formats the source of a kernel with the share of its samples, and the instructions of each line.

What does not fit into the size that is left is left out by samples, and the page says how much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.render.html.report_text import count_bytes, escape_text, format_share

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import KernelAnswer
    from kernelkb.render.html.report_data import KernelCode, PageSource, SassLine, SourceRow

_MAX_FILES = 6
_MAX_LINES = 500
"""Most lines of one file; a longer file is shown around the lines with samples."""
_CONTEXT_LINES = 3
_MAX_LINE_CHARS = 240
_MAX_SASS_CHARS = 160
_ROW_BYTES = 150
"""The tags around one line of source."""
_SOURCE_SHARE = 0.5
"""Of the size that is left, for the source; the rest is for the instructions."""
_MIN_SHARE = 0.0005
"""Smaller shares would show as zero."""
_MAX_OPEN = 40
"""Most instructions of the line that is shown open."""

Marks = Mapping[tuple[str, int], list[str]]
"""By file and line, what the diagnoses say of it."""


class _SassTables(NamedTuple):
    """The instructions that are shown."""

    by_line: dict[tuple[str, int], str]
    unplaced: str
    shown: int


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


def format_code(number: int, code: KernelCode, marks: Marks, max_bytes: int) -> Iterator[str]:
    """Yield the files of a kernel, line by line, with the instructions in elements that open.

    Args:
        number: Of the kernel, for the anchors.
        code: What to show.
        marks: Lines that diagnoses point at; they are always shown.
        max_bytes: Size that is left for it.
    """
    files = code.files[:_MAX_FILES]
    anchors = name_anchors(number, code)
    chosen = _choose_lines(files, marks, int(max_bytes * _SOURCE_SHARE))
    tables = _choose_instructions(code, files, marks, int(max_bytes * (1 - _SOURCE_SHARE)))
    yield f'<p class="muted">{_describe_code(code, tables.shown)}</p>'
    top = _find_largest_share(files)
    first = next(iter(marks), None)
    for file in files:
        yield f'<h4 class="path">{escape_text(file.path, 200)}'
        yield f' <span class="muted">{format_share(file.share)}</span></h4>'
        if not file.text:
            yield '<p class="muted">The report holds no text of this file: record with '
            yield "<code>--import-source yes</code>.</p>"
        yield '<div class="source">'
        for line in _fold_lines(file, chosen[file.path]):
            if isinstance(line, str):
                yield line
                continue
            key = (file.path, line)
            yield _format_row(
                file, line, f"{anchors[file.path]}{line}", top, tables.by_line.get(key, ""),
                marks.get(key, []), is_open=key == first,
            )  # fmt: skip
        yield "</div>"
    if tables.unplaced:
        share = format_share(code.unplaced.share)
        yield f"<details><summary>Instructions without a line, {share}</summary>"
        yield f"{tables.unplaced}</details>"


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
            cost = _ROW_BYTES + count_bytes(escape_text(_get_text(file, at), _MAX_LINE_CHARS))
            if cost <= left and len(lines) < _MAX_LINES:
                lines.add(at)
                left -= cost
    return {path: sorted(lines) for path, lines in chosen.items()}


def _is_shown(file: PageSource, at: int, line: int) -> bool:
    """Whether a line near one with instructions exists; of an unknown text only that one."""
    return at == line or 1 <= at <= len(file.text)


def _get_text(file: PageSource, line: int) -> str:
    return file.text[line - 1] if 0 < line <= len(file.text) else ""


def _fold_lines(file: PageSource, lines: Iterable[int]) -> Iterator[int | str]:
    """Yield the lines, and an element for those left out between them."""
    before = 0
    for line in lines:
        if line > before + 1 and file.text:
            yield f'<div class="fold">{line - before - 1} lines not shown</div>'
        yield line
        before = line
    if before < len(file.text):
        yield f'<div class="fold">{len(file.text) - before} lines not shown</div>'


def _find_largest_share(files: Iterable[PageSource]) -> float:
    """Return the largest share of a line."""
    return max((row.share for file in files for row in file.rows.values()), default=0.0)


def _format_row(
    file: PageSource,
    line: int,
    anchor: str,
    top: float,
    table: str,
    said: list[str],
    *,
    is_open: bool,
) -> str:
    """Return one line of source; with instructions it opens.

    Args:
        file: It is a line of it.
        line: Its number.
        anchor: Its id.
        top: The largest share of a line of the kernel.
        table: The instructions that are shown.
        said: What diagnoses say of it.
        is_open: Whether its instructions are visible at first, where they are few.
    """
    row = file.rows.get(line)
    share = row.share if row else 0.0
    heat = _format_heat(share, top)
    notes = "".join(f"<mark>{escape_text(text, 120)}</mark>" for text in said)
    stall = f"<i>{escape_text(row.stall, 40)}</i>" if row and row.stall and heat else ""
    cells = (
        f"<b>{line}</b><span>{format_share(share) if heat else ''}</span>"
        f"<code>{escape_text(_get_text(file, line), _MAX_LINE_CHARS)}</code>{stall}{notes}"
    )
    if not table:
        return f'<div class="row" id="{anchor}"{heat}>{cells}</div>'
    shown = " open" if is_open and row and len(row.instructions) <= _MAX_OPEN else ""
    return (
        f'<details id="{anchor}"{shown}><summary class="row"{heat}>{cells}</summary>'
        f"{table}</details>"
    )


def _format_heat(share: float, top: float) -> str:
    """Return the attribute that colours a line by its share of samples; empty for a cold one."""
    return f' style="--h:{share / top:.2f}"' if top and share >= _MIN_SHARE else ""


def _choose_instructions(
    code: KernelCode, files: Sequence[PageSource], marks: Marks, max_bytes: int
) -> _SassTables:
    """Return tables of the instructions of as many lines as fit, in the order of their samples."""
    left, shown, unplaced, top = max_bytes, 0, "", _find_largest_share(files)
    by_line: dict[tuple[str, int], str] = {}
    for key, row in _rank_rows(files, marks):
        table, count = _format_table(row, top, left)
        if table:
            by_line[key] = table
            left, shown = left - count_bytes(table), shown + count
    if code.unplaced.instructions:
        unplaced, count = _format_table(code.unplaced, top, left)
        shown += count
    return _SassTables(by_line, unplaced, shown)


def _format_table(row: SourceRow, top: float, max_bytes: int) -> tuple[str, int]:
    """Return a line's instructions as a table and their number: those with samples, if too many."""
    texts = {one.offset: _format_instruction(one, top) for one in row.instructions}
    kept: set[int] = set()
    left = max_bytes - _ROW_BYTES
    for one in sorted(row.instructions, key=lambda one: (-one.share, one.offset)):
        if (size := count_bytes(texts[one.offset])) > left:
            break
        kept.add(one.offset)
        left -= size
    if not kept:
        return "", 0
    missing = len(row.instructions) - len(kept)
    more = f"<tr><td></td><td>{missing} more not shown</td></tr>" if missing else ""
    body = "".join(texts[one.offset] for one in row.instructions if one.offset in kept)
    return f'<table class="sass"><tbody>{body}{more}</tbody></table>', len(kept)


def _format_instruction(one: SassLine, top: float) -> str:
    share = format_share(one.share) if one.share >= _MIN_SHARE else ""
    stall = escape_text(one.stall, 40) if one.stall and share else ""
    text = escape_text(one.text, _MAX_SASS_CHARS)
    return (
        f"<tr{_format_heat(one.share, top)}><td>{one.offset:04x}</td><td>{text}</td>"
        f"<td>{share}</td><td>{stall}</td></tr>"
    )
