"""Formats a report as one HTML page: kernels, causes, time, source and machine code.

The page needs no network and no script, and forbids both: what a report contains stays text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.decide.conditions import format_comparison
from kernelkb.render.html.charts import Roofline, TimePart, list_time_parts, place_roofline
from kernelkb.render.html.pages import count_bytes, fill_template, format_share
from kernelkb.render.html.report_code import ShownCode, choose_code, list_marks, name_anchors
from kernelkb.render.text.answers import format_speedup
from kernelkb.render.text.next_steps import format_steps
from kernelkb.render.text.source_lines import describe_line
from kernelkb.safety.untrusted_text import sanitize_text
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import Diagnosis, KernelAnswer, Measure
    from kernelkb.model.answers.report_facts import NcuRuleEstimate
    from kernelkb.model.entries.source_line import SourceLine
    from kernelkb.render.html.report_data import KernelSection, ReportContents

MAX_PAGE_BYTES = 2_000_000
"""The code that is shown of each kernel is cut so that the page stays below."""
_MAX_CODE_BYTES = 400_000
"""Of one kernel."""
_MIN_CODE_BYTES = 4_000
_CODE_FRAME_BYTES = 400
"""Of a kernel, the heading of its code and what is said of it."""


class _ShownKernel(NamedTuple):
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


def format_report_page(contents: ReportContents, max_bytes: int = MAX_PAGE_BYTES) -> str:
    """Return the page.

    Args:
        contents: What it shows; texts are those of the report, as they are.
        max_bytes: Size that source and machine code are cut to fit into.
    """
    bare = [_show_kernel(at, section) for at, section in enumerate(contents.sections, 1)]
    taken = count_bytes(_fill_page(contents, bare)) + _CODE_FRAME_BYTES * len(bare)
    each = max((max_bytes - taken) // max(len(bare), 1), _MIN_CODE_BYTES)
    shown = [
        one._replace(code=_choose_code(one.number, section, min(each, _MAX_CODE_BYTES)))
        for one, section in zip(bare, contents.sections, strict=True)
    ]
    return _fill_page(contents, shown)


def _fill_page(contents: ReportContents, kernels: Sequence[_ShownKernel]) -> str:
    return fill_template(
        "report.html",
        contents=contents,
        kernels=kernels,
        left_count=contents.kernel_count - len(kernels),
        left_share=max(1 - sum(one.answer["share"] or 0.0 for one in kernels), 0.0),
        compare=format_comparison,
        describe_line=describe_line,
        speedup=format_speedup,
        get_file_name=lambda path: PurePath(path).name,
    )


def _choose_code(number: int, section: KernelSection, max_bytes: int) -> ShownCode | None:
    if section.code is None:
        return None
    return choose_code(number, section.code, list_marks(section.answer), max_bytes)


def _show_kernel(number: int, section: KernelSection) -> _ShownKernel:
    """Return a kernel without its code."""
    answer = section.answer
    matches = [one for one in answer["diagnoses"] if one["verdict"] == "matches"]
    lines = matches[0]["lines"]["lines"] if matches and matches[0]["lines"] else []
    return _ShownKernel(
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
