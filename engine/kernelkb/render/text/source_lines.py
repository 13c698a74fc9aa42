"""Formats the lines of a kernel that a diagnosis points at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelkb.model.entries.source_line import CodePlace, LineAnswer, SourceLine

_MAX_TEXT_CHARS = 96
_WAITING = {
    "result": "waits for its result",
    "operands": "waits until it has read its operands, which it overwrites",
    "scoreboard": "may wait for it: they share a scoreboard, and no register",
}


def format_source_lines(answer: LineAnswer | None) -> Iterator[str]:
    """Yield the lines with share, text and instruction, or why there are none."""
    if answer is None:
        return
    if answer["reason"]:
        yield f"     no line: {answer['reason']}"
    for number, line in enumerate(answer["lines"]):
        yield f"     {'at' if not number else 'and'} {describe_line(line)}"
        yield from _format_code(line["at"])
        if line["waiting"] is not None and line["dependence"] is not None:
            waiting, word = line["waiting"], _WAITING[line["dependence"]]
            yield f"         line {waiting['line']} {word}"
            if waiting["line"] != line["at"]["line"]:
                yield from _format_code(waiting)


def describe_line(line: SourceLine) -> str:
    """Return where a line is and what it holds: ``naive.cu:17, 97 % of the excess sectors``."""
    at = line["at"]
    called = f", called at line {line['called_at']}" if line["called_at"] else ""
    told = f"{PurePath(at['file']).name}:{at['line']}{called}, {line['share']:.0%} of {line['of']}"
    if not line["samples"] or line["of"] == "the samples":
        return told
    stall = f" ({line['stall']})" if line["stall"] else ""
    return f"{told}, {line['samples']:.0%} of the samples{stall}"


def _format_code(place: CodePlace) -> Iterator[str]:
    if place["text"]:
        yield f"         {place['line']:>4} | {place['text'][:_MAX_TEXT_CHARS]}"
    if place["instruction"]:
        yield f"              {place['instruction'][:_MAX_TEXT_CHARS]}"
