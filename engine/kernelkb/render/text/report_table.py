"""Formats the kernels of a report as a table: what takes the time, why, where, and the gain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import Diagnosis, KernelAnswer

_HEADER = ("kernel", "time", "share", "cause", "line", "gain", "at most")
_MIN_NAME_CHARS = 12
_MAX_LINE_CHARS = 24
_GAP = 2
_TEMPLATE = re.compile(r"<[^<>]*>")


class _Row(NamedTuple):
    """The cells of one kernel."""

    kernel: str
    time: str
    share: str
    cause: str
    line: str
    gain: str
    at_most: str


def format_report_table(answers: Sequence[KernelAnswer], width: int | None = None) -> Iterator[str]:
    """Yield a header and a row for each kernel, the longest first.

    Args:
        answers: Of one report.
        width: Of the terminal in characters; None: rows are as long as they need to be.
    """
    rows = [_Row(*_HEADER), *map(_build_row, answers)]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        rest = sum(sizes[1:]) + _GAP * (len(sizes) - 1)
        sizes[0] = max(_MIN_NAME_CHARS, min(sizes[0], width - rest))
    for row in rows:
        cells = [_clip(cell, size).ljust(size) for cell, size in zip(row, sizes, strict=True)]
        yield (" " * _GAP).join(cells).rstrip()


def _build_row(answer: KernelAnswer) -> _Row:
    best = next((d for d in answer["diagnoses"] if d["verdict"] == "matches"), None)
    gain = best["predicted_speedup"] if best else None
    duration, share, at_most = answer["duration_us"], answer["share"], answer["at_most"]
    return _Row(
        kernel=shorten_name(answer["kernel"]),
        time=format_duration(duration) if duration is not None else "-",
        share=f"{share:.0%}" if share is not None else "-",
        cause=best["bottleneck"] if best else "-",
        line=_clip_place(name_line(best)) if best else "-",
        gain=f"{gain['point']:.3g}x" if gain else "-",
        at_most=f"{at_most:.3g}x" if at_most is not None else "-",
    )


def name_line(diagnosis: Diagnosis) -> str:
    """Return the first line of a diagnosis as ``naive.cu:17``; ``-`` without one."""
    answer = diagnosis["lines"]
    if answer is None or not answer["lines"]:
        return "-"
    at = answer["lines"][0]["at"]
    return f"{PurePath(at['file']).name}:{at['line']}"


def shorten_name(kernel: str) -> str:
    """Return a kernel's name without its arguments, template arguments and name space."""
    name = kernel.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    while (shorter := _TEMPLATE.sub("", name)) != name:
        name = shorter
    words = name.partition("(")[0].split()
    return (words[-1].rpartition("::")[2] if words else "") or kernel


def _clip(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"


def _clip_place(place: str) -> str:
    """Return ``naive.cu:17`` with a file name that is cut off where it is too long."""
    name, colon, number = place.rpartition(":")
    return _clip(name, _MAX_LINE_CHARS - len(colon) - len(number)) + colon + number
