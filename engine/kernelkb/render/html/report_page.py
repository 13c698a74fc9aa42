"""Formats a report as one HTML page: kernels, causes, time, source and machine code.

The page needs no network and no script, and forbids both: what a report contains stays text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from kernelkb.render.html.html_page import format_page_start
from kernelkb.render.html.report_charts import format_roofline, format_time_bar
from kernelkb.render.html.report_code import format_code, list_marks, name_anchors
from kernelkb.render.html.report_diagnoses import format_diagnoses, format_further, pick_first_line
from kernelkb.render.html.report_style import STYLE
from kernelkb.render.html.report_text import count_bytes, escape_text, format_share
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import KernelAnswer
    from kernelkb.render.html.report_data import KernelSection, ReportContents

MAX_PAGE_BYTES = 2_000_000
"""The code that is shown of each kernel is cut so that the page stays below."""
_MAX_CODE_BYTES = 400_000
"""Of one kernel."""
_MIN_CODE_BYTES = 4_000
_MAX_NAME_CHARS = 160
_MAX_LONG_NAME_CHARS = 4000
_COLUMNS = ("Kernel", "Time", "Share", "Cause", "Line", "Predicted gain", "Headroom")
_COLUMN_CLASSES = {"Time": "num", "Share": "num", "Predicted gain": "keep", "Headroom": "keep"}


def format_report_page(contents: ReportContents, max_bytes: int = MAX_PAGE_BYTES) -> str:
    """Return the page.

    Args:
        contents: What it shows; texts are those of the report, as they are.
        max_bytes: Size that source and machine code are cut to fit into.
    """
    sections = contents.sections
    heads = ["\n".join(_format_head(at, one)) for at, one in enumerate(sections, 1)]
    tails = ["\n".join(format_further(one.answer)) for one in sections]
    top = "\n".join((*_format_start(contents), *_format_table(contents)))
    end = f'<footer class="muted">KernelKB, knowledge {escape_text(contents.knowledge)}</footer>'
    taken = count_bytes("".join((top, *heads, *tails, end))) + 200 * len(sections)
    each = max((max_bytes - taken) // max(len(sections), 1), _MIN_CODE_BYTES)
    bodies = []
    for at, (one, head, tail) in enumerate(zip(sections, heads, tails, strict=True), 1):
        code = "\n".join(_format_code_section(at, one, min(each, _MAX_CODE_BYTES)))
        bodies.append(f'<section class="kernel" id="k{at}">{head}\n{code}\n{tail}</section>')
    return "\n".join((top, *bodies, "</main>", end, "</body></html>\n"))


def _format_start(contents: ReportContents) -> Iterator[str]:
    name = escape_text(contents.report, _MAX_NAME_CHARS)
    yield format_page_start(f"{name}: kernels", STYLE)
    devices = ", ".join(escape_text(one, 80) for one in contents.devices) or "GPU unknown"
    launches = f"{contents.launch_count} launch{'es' if contents.launch_count != 1 else ''}"
    yield f"<header><h1>{name}</h1>"
    yield f'<p class="muted">{devices}; {launches}, {format_duration(contents.total_us)} in all'
    yield "</p></header><main>"


def _format_table(contents: ReportContents) -> Iterator[str]:
    yield '<table class="kernels"><thead><tr>'
    for name in _COLUMNS:
        yield f'<th scope="col"{_name_class(name)}>{name}</th>'
    yield "</tr></thead><tbody>"
    for number, section in enumerate(contents.sections, 1):
        cells = zip(_COLUMNS, _format_cells(number, section), strict=True)
        row = "".join(
            f'<td data-name="{name}"{_name_class(name)}>{one}</td>' for name, one in cells
        )
        yield f"<tr>{row}</tr>"
    yield "</tbody></table>"
    left = contents.kernel_count - len(contents.sections)
    if left > 0:
        rest = 1 - sum(one.answer["share"] or 0.0 for one in contents.sections)
        yield f'<p class="muted">{left} further kernels or shapes of the report are not shown; '
        yield f"they take {format_share(max(rest, 0.0))} of its time.</p>"


def _name_class(column: str) -> str:
    name = _COLUMN_CLASSES.get(column)
    return f' class="{name}"' if name else ""


def _format_cells(number: int, section: KernelSection) -> Iterator[str]:
    answer = section.answer
    matches = [one for one in answer["diagnoses"] if one["verdict"] == "matches"]
    best = matches[0] if matches else None
    gain = best["predicted_speedup"] if best else None
    yield f'<a href="#k{number}">{escape_text(_get_name(answer), _MAX_NAME_CHARS)}</a>'
    yield "" if answer["duration_us"] is None else format_duration(answer["duration_us"])
    yield "" if answer["share"] is None else format_share(answer["share"])
    yield escape_text(best["bottleneck"], 80) if best else "not named"
    yield _format_line_link(number, section)
    yield f"{gain['point']:.3g}x [{gain['low']:.3g}, {gain['high']:.3g}]" if gain else ""
    yield _describe_headroom(answer)


def _format_line_link(number: int, section: KernelSection) -> str:
    """Return the first line that the first cause names, linked where the page shows it."""
    found = pick_first_line(section.answer["diagnoses"])
    if found is None:
        return ""
    at = found["at"]
    where = f"{escape_text(PurePath(at['file']).name, 40)}:{at['line']}"
    anchors = name_anchors(number, section.code) if section.code else {}
    start = anchors.get(at["file"])
    return f'<a href="#{start}{at["line"]}">{where}</a>' if start else where


def _describe_headroom(answer: KernelAnswer) -> str:
    room = answer["headroom"]
    if room:
        return f"{room['attainable_speedup']:.3g}x to the floor"
    return f"at most {answer['at_most']:.3g}x" if answer["at_most"] is not None else ""


def _get_name(answer: KernelAnswer) -> str:
    return answer["kernel"] or "unnamed kernel"


def _format_head(number: int, section: KernelSection) -> Iterator[str]:
    """Yield what stands above the code of a kernel."""
    answer, name = section.answer, _get_name(section.answer)
    yield f"<h2>{number}. {escape_text(name, _MAX_NAME_CHARS)}</h2>"
    if len(name) > _MAX_NAME_CHARS:
        yield '<details class="more"><summary>Whole name</summary>'
        yield f"<code>{escape_text(name, _MAX_LONG_NAME_CHARS)}</code></details>"
    yield f'<p class="muted">{_describe_launch(section)}</p>'
    gate = answer["gate"]
    verdict = escape_text(gate["verdict"], 20)
    yield f'<p><span class="verdict {verdict}">{verdict}</span> {escape_text(gate["because"])}</p>'
    room = answer["headroom"]
    if room:
        floor, measured = format_duration(room["floor_us"]), format_duration(room["measured_us"])
        bound = f" by {escape_text(room['bound'], 20)}" if room["bound"] else ""
        yield f"<p>Floor {floor}{bound}, measured {measured}.</p>"
    yield from (f'<p class="muted">{escape_text(note)}</p>' for note in answer["notes"][:10])
    yield '<div class="two">'
    if answer["time"]:
        yield "<div><h3>Where the time goes</h3>"
        yield from format_time_bar(answer["time"])
        yield "</div>"
    if section.roofline:
        yield "<div><h3>Roofline</h3>"
        yield from format_roofline(section.roofline)
        yield "</div>"
    yield "</div>"
    anchors = name_anchors(number, section.code) if section.code else {}
    yield from format_diagnoses(answer, anchors)


def _describe_launch(section: KernelSection) -> str:
    told: list[str] = []
    duration, share = section.answer["duration_us"], section.answer["share"]
    if duration is not None:
        told.append(format_duration(duration))
    if section.launch_count > 1:
        told.append(f"the longest of {section.launch_count} launches")
    if share is not None:
        told.append(f"{format_share(share)} of the report's time")
    told += _name_shape(section.shape)
    return ", ".join(told)


def _name_shape(shape: Sequence[str]) -> list[str]:
    names = zip(("grid", "block"), shape, strict=True)
    return [f"{name} {escape_text(size, 40)}" for name, size in names if size]


def _format_code_section(number: int, section: KernelSection, max_bytes: int) -> Iterator[str]:
    if section.code is None:
        if section.missing:
            yield f'<p class="muted">No source: {escape_text(section.missing)}</p>'
        return
    yield "<h3>Source and machine code</h3>"
    yield from format_code(number, section.code, list_marks(section.answer), max_bytes)
