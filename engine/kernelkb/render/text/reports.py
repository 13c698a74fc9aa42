"""Text of reports: their kernels as a table, and what machine code shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelkb.render.text.answers import (
    describe_line,
    format_speedup,
    shorten_name,
)
from kernelkb.render.text.steps import print_answer
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.decide.symptoms import Explanation
    from kernelkb.model.answers.recommendation import (
        Diagnosis,
        KernelAnswer,
        ProgramAnswer,
        ProgramKernel,
    )
    from kernelkb.model.answers.source_place import (
        KernelFacts,
        StaticFact,
        StaticReport,
    )

_HEADER = ("kernel", "time", "share", "cause", "line", "gain")
_MIN_NAME_CHARS = 12
_MAX_LINE_CHARS = 24
_GAP = 2
_MAX_LINES = 5
_MAX_KERNEL_CHARS = 60
_MAX_BOUND = 50.0
"""Of a speedup, from which it says no more than that nothing else takes time."""
_MAX_NAMES = 3
_MAX_FACTS = 8
"""Lines printed of one kernel."""
_NAME = re.compile(r"\d+")


class _Row(NamedTuple):
    """The cells of one kernel."""

    kernel: str
    time: str
    share: str
    cause: str
    line: str
    gain: str


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
    duration, share = answer["duration_us"], answer["share"]
    return _Row(
        kernel=shorten_name(answer["kernel"]),
        time=format_duration(duration) if duration is not None else "-",
        share=f"{share:.0%}" if share is not None else "-",
        cause=best["bottleneck"] if best else "-",
        line=_clip_place(name_line(best)) if best else "-",
        gain=f"{gain['point']:.3g}x" if gain else "-",
    )


def name_line(diagnosis: Diagnosis) -> str:
    """Return the first line of a diagnosis as ``naive.cu:17``; ``-`` without one."""
    answer = diagnosis["lines"]
    if answer is None or not answer["lines"]:
        return "-"
    at = answer["lines"][0]["at"]
    return f"{PurePath(at['file']).name}:{at['line']}"


def _clip(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"


def _clip_place(place: str) -> str:
    """Return ``naive.cu:17`` with a file name that is cut off where it is too long."""
    name, colon, number = place.rpartition(":")
    return _clip(name, _MAX_LINE_CHARS - len(colon) - len(number)) + colon + number


def format_static_report(report: StaticReport) -> Iterator[str]:
    """Yield a line for each notable fact, or the one line that says why there is none."""
    if report["reason"]:
        yield f"  machine code not read: {report['reason']}"
    kernels: dict[tuple[str, ...], list[str]] = {}
    for found in report["kernels"]:
        lines = tuple(_list_facts(found))
        if lines:
            kernels.setdefault(lines, []).append(find_plain_name(found["kernel"]))
    for lines, names in kernels.items():
        if len(report["kernels"]) > 1:
            alike = f", {len(names)} alike" if len(names) > 1 else ""
            yield f"  {', '.join(dict.fromkeys(names))}{alike}:"
        yield from (f"    {line}" for line in lines)


def _list_facts(found: KernelFacts) -> Iterator[str]:
    facts = [fact for fact in _merge_widths(found["facts"]) if fact["notable"]]
    yield from map(describe_fact, facts[:_MAX_FACTS])
    if len(facts) > _MAX_FACTS:
        yield f"and {len(facts) - _MAX_FACTS} more"


def describe_fact(fact: StaticFact) -> str:
    """Return a fact with its lines and names: ``line 29: arithmetic in fp64: 70 DFMA (0.01)``."""
    names = dict.fromkeys(name for place in fact["places"] for name in place["names"])
    words = fact["words"]
    if names:
        more = ", ..." if len(names) > _MAX_NAMES else ""
        words += f" ({', '.join(list(names)[:_MAX_NAMES])}{more})"
    where = _format_lines(fact)
    return f"{where}: {words}" if where else words


def _format_lines(fact: StaticFact) -> str:
    """Return the lines that hold most of a fact, in the order of the source."""
    places = sorted(fact["places"], key=lambda place: (-place["count"], place["line"]))
    lines = sorted({place["line"] for place in places[:_MAX_LINES]})
    if not lines:
        return ""
    rest = len({place["line"] for place in places} - set(lines))
    more = f" and {rest} more" if rest else ""
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}{more}"


def _merge_widths(facts: Iterable[StaticFact]) -> Iterator[StaticFact]:
    """Yield the facts with narrow global accesses of all widths and directions as one."""
    facts = list(facts)
    narrow = [fact for fact in facts if fact["kind"] == "global-width" and fact["notable"]]
    if len(narrow) < 2:
        yield from facts
        return
    places = [place for fact in narrow for place in fact["places"]]
    merged: StaticFact = {**narrow[0], "words": _join_widths(narrow), "places": places}
    for fact in facts:
        if fact is narrow[0]:
            yield merged
        elif fact not in narrow:
            yield fact


def _join_widths(facts: Iterable[StaticFact]) -> str:
    """Return ``global load of 2, 4 bytes a lane, global store of 2 bytes a lane``."""
    widths: dict[str, list[float]] = {}
    for fact in facts:
        widths.setdefault(fact["words"].split(" of ")[0], []).append(fact["amount"])
    return ", ".join(
        f"{what} of {', '.join(f'{width:.0f}' for width in sorted(found))} bytes a lane"
        for what, found in widths.items()
    )


def find_plain_name(mangled: str) -> str:
    """Return the last identifier of a mangled name: ``walk`` of ``_ZN...4walkEPKf``."""
    if not mangled.startswith("_Z"):
        return mangled
    at, name = (3 if mangled.startswith("_ZN") else 2), ""
    while found := _NAME.match(mangled, at):
        at = found.end() + int(found[0])
        name = mangled[found.end() : at]
    return name or mangled


def print_program(answer: ProgramAnswer) -> dict[str, Any]:
    """Return an answer as ``kb profile --json -- COMMAND`` prints it."""
    return {
        **answer,
        "program": print_answer(answer["program"]) if answer["program"] else None,
        "kernels": [
            {**one, "answer": print_answer(one["answer"]) if one["answer"] else None}
            for one in answer["kernels"]
        ],
    }


def format_program_lines(answer: ProgramAnswer) -> Iterator[str]:
    """Yield the whole of a program, what comes first in it, then its kernels with their causes."""
    status = answer["status"]
    end = "ended after its time" if status is None else f"ended with {status}"
    if status:
        by = f"signal {-status}" if status < 0 else f"exit status {status}"
        end = f"FAILED with {by}; what follows is of what it did until then"
    yield f"program: {format_duration(answer['seconds'] * 1e6)}, {end}"
    if answer["program"] is None:
        yield f"  no work of a GPU was {'seen' if answer['tool'] else 'traced'}"
    else:
        yield from _format_whole(answer, answer["program"])
    if first := answer["first"]:
        which = first["kernel"] or first["what"]
        yield ""
        yield f"First: {which[:_MAX_KERNEL_CHARS]}{_format_bound(answer, first['at_most'])}"
        yield f"  {first['because']}"
    for kernel in answer["kernels"]:
        yield from _format_program_kernel(answer, kernel)
    yield from (f"note: {note}" for note in answer["notes"])


def format_explanation_lines(answer: Explanation) -> Iterator[str]:
    """Yield how a program went, where it was, then the causes with their changes."""
    after = format_duration(answer["seconds"] * 1e6)
    status = answer["status"]
    by = f"signal {-status}" if status is not None and status < 0 else f"exit status {status}"
    is_own = bool(answer["command"])
    words = {
        "ended": f"program: it ended well after {after}",
        "failed": f"program: it FAILED with {by} after {after}",
        "crashed": f"program: it CRASHED on the GPU, with {by} after {after}",
        "hangs": f"program: it HANGS; looked at after {after}, and ended",
        "out-of-time": f"program: it was ended after {after}, and did not stand still",
    }
    other = {"hangs": "process: it HANGS", "out-of-time": "process: it does not stand still"}
    yield (words if is_own else other)[answer["outcome"]]
    yield from (f"  {line}" for line in answer["lines"])
    for cause in answer["causes"]:
        yield ""
        yield f"{cause['symptom']}: {cause['title']}"
        yield f"  cause:  {cause['cause']}"
        yield f"  change: {cause['cure']}"
        yield f"  check:  {cause['check']}"
    if answer["lines"] and not answer["causes"]:
        yield "no known cause fits this"
    yield from (f"note: {note}" for note in answer["notes"])


def _format_whole(answer: ProgramAnswer, program: KernelAnswer) -> Iterator[str]:
    left = answer["warm_up_launches"]
    without = f", without {left:,} launches of warm-up" if left else ""
    yield f"  timeline of {answer['tool']}{without}"
    yield from (f"  {note}" for note in program["notes"])
    yield from _format_cause(program, "  ")


def _format_bound(answer: ProgramAnswer, at_most: float) -> str:
    """Return what the program gains at most; nothing where there is hardly anything else."""
    if at_most >= _MAX_BOUND:
        return ""
    what = "time in kernels" if answer["tool"] == "ncu" else "traced time"
    return f", the {what} at most {at_most:.2f}x as fast"


def _format_program_kernel(answer: ProgramAnswer, kernel: ProgramKernel) -> Iterator[str]:
    name = shorten_name(kernel["kernel"])[:_MAX_KERNEL_CHARS]
    time = f"{kernel['launches']:,} of {format_duration(kernel['duration_us'])}"
    gain = f", {kernel['speedup']:.2f}x by its first change" if kernel["speedup"] else ""
    bounds = f"{_format_bound(answer, kernel['at_most'])}{gain}"
    if kernel["answer"]:
        yield ""
    yield f"{name}: {kernel['share']:.0%} ({time}){bounds}"
    if kernel["answer"] and kernel["library"]:
        yield f"  change the call, not the kernel, which is of {kernel['library']}"
    if kernel["called_by"]:
        yield f"  called by {kernel['called_by']}"
    if kernel["answer"]:
        yield from _format_cause(kernel["answer"], "  ")
    elif kernel["reason"]:
        yield f"  {kernel['reason']}"


def _format_cause(answer: KernelAnswer, indent: str) -> Iterator[str]:
    """Yield the first cause with its line and its first change."""
    matches = [one for one in answer["diagnoses"] if one["verdict"] == "matches"]
    if answer["gate"]["verdict"] in ("stop", "done"):
        yield f"{indent}{answer['gate']['verdict'].upper()}: {answer['gate']['because']}"
    if not matches:
        yield f"{indent}no cause can be named from what was counted"
        return
    best, *others = matches
    gain = f", {format_speedup(best['predicted_speedup'])}" if best["predicted_speedup"] else ""
    also = f"; also {', '.join(one['bottleneck'] for one in others[:2])}" if others else ""
    yield f"{indent}{best['bottleneck']}, confidence {best['confidence']:.2f}{gain}{also}"
    for line in (best["lines"] or {"lines": []})["lines"][:1]:
        yield f"{indent}  at {describe_line(line)}"
    for fix in best["fixes"][:1]:
        yield f"{indent}  {fix['id']}: {fix['do']}"
