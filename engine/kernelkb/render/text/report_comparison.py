"""Formats the comparison of two reports: one screen for each kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from kernelkb.render.text.answers import format_speedup
from kernelkb.render.text.source_lines import format_source_lines
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.model.answers.report_comparison import (
        Amount,
        FalsifierCheck,
        KernelComparison,
        LaunchSide,
        LineChange,
        NowBinding,
        PartChange,
        ReportComparison,
        SourcePoint,
    )
    from kernelkb.model.entries.source_line import LineAnswer

_MAX_STALLS = 5
_MAX_LINES = 5
_MAX_TEXT_CHARS = 84
_MAX_KERNEL_CHARS = 60
_WIDTH = 36
"""Columns of the names in a table."""
_NO_BENCH = "profiler durations of one launch each, which are not a bench; kb bench measures a gain"


def format_report_comparison(comparison: ReportComparison) -> Iterator[str]:
    """Yield a screen for each kernel, then the kernels that have no partner."""
    for position, kernel in enumerate(comparison["kernels"]):
        if position:
            yield ""
        yield from _format_kernel(kernel)
    only = (("only before", comparison["only_before"]), ("only now", comparison["only_now"]))
    if any(sides for _, sides in only) or comparison["left_out"]:
        yield ""
    for words, sides in only:
        yield from (f"{words}: {_describe_launch(side, is_named=True)}" for side in sides)
    if comparison["left_out"]:
        yield f"{comparison['left_out']} shorter kernels left out; --kernel picks others"


def _format_kernel(kernel: KernelComparison) -> Iterator[str]:
    before, now = kernel["before"], kernel["now"]
    name = " -> ".join(dict.fromkeys((before["name"], now["name"])))
    yield f"{name}: {_describe_times(kernel)}"
    yield f"  ({_NO_BENCH})"
    is_named = before["kernel"] != now["kernel"]
    yield f"  before  {_describe_launch(before, is_named=is_named)}"
    yield f"  now     {_describe_launch(now, is_named=is_named)}"
    yield from (f"  note: {note}" for note in kernel["notes"])
    yield from _format_budget(kernel["time"])
    yield from _format_samples(kernel)
    yield from _format_falsifier(kernel["falsifier"])
    yield from _format_binding(kernel["binds"])


def _describe_times(kernel: KernelComparison) -> str:
    old, new = kernel["before"]["duration_us"], kernel["now"]["duration_us"]
    if old is None or new is None or kernel["ratio"] is None:
        return "a report holds no duration"
    ratio = f"{kernel['ratio']:.3g}x as fast"
    return f"{format_duration(old)} -> {format_duration(new)}, {ratio}"


def _describe_launch(side: LaunchSide, *, is_named: bool) -> str:
    shape = f" grid {side['grid']} block {side['block']}" if side["grid"] else ""
    name = f" {side['kernel'][:_MAX_KERNEL_CHARS]}" if is_named else ""
    return f"{PurePath(side['report']).name}#{side['launch']}{shape}{name}"


def _format_budget(parts: Sequence[PartChange]) -> Iterator[str]:
    yield ""
    yield f"{'Where the time went':{_WIDTH + 4}}before{'now':>21}"
    if not parts:
        yield "  no part changed by half a point, or a report lacks the metrics"
    for part in parts:
        points = 100 * (_get_share(part["now"]) - _get_share(part["before"]))
        now = f"  now {part['title_now']}" if part["title_now"] != part["title"] else ""
        row = f"{_start_row(part['title'])} {_format_sides(part, '< 2 %')}"
        yield f"{row} {points:+6.1f} points{now}"


def _start_row(name: str) -> str:
    return f"  {name[:_WIDTH]:{_WIDTH}}"


def _format_sides(part: PartChange | LineChange, absent: str) -> str:
    before, now = _format_amount(part["before"], absent), _format_amount(part["now"], absent)
    return f"{before:20} -> {now:20} {_format_us_change(part):>12}"


def _format_amount(amount: Amount | None, absent: str) -> str:
    """Return share and time in 20 columns."""
    if amount is None:
        return f"{absent:>7}"
    us = "" if amount["us"] is None else f"{amount['us']:10.1f} us"
    return f"{100 * amount['share']:5.1f} %{us}"


def _format_us_change(part: PartChange | LineChange) -> str:
    sides = [one["us"] for one in (part["before"], part["now"]) if one is not None]
    known = [us for us in sides if us is not None]
    if len(known) < len(sides):
        return ""
    return f"{_get_us(part['now']) - _get_us(part['before']):+.1f} us"


def _get_share(amount: Amount | None) -> float:
    return amount["share"] if amount else 0.0


def _get_us(amount: Amount | None) -> float:
    return (amount["us"] or 0.0) if amount else 0.0


def _format_samples(kernel: KernelComparison) -> Iterator[str]:
    samples = kernel["samples"]
    yield ""
    if samples is None:
        yield f"No stalls and lines: {kernel['no_samples']}"
        return
    told = f"{samples['total_before']:.0f} -> {samples['total_now']:.0f}"
    yield f"Stalls ({told} samples; us: share of the samples x duration)"
    for stall in samples["stalls"][:_MAX_STALLS]:
        row = f"{_start_row(stall['title'])} {_format_sides(stall, 'none')}"
        yield f"{row}  {_format_counts(stall)}"
    yield ""
    reason = samples["lines_reason"]
    yield f"Lines that gained or lost samples{f' ({reason})' if reason else ''}"
    if not samples["lines"] and not reason:
        yield "  none: each line has the time that it had, within 1 % of the duration"
    for line in samples["lines"][:_MAX_LINES]:
        yield from _format_line(line)


def _format_counts(part: PartChange | LineChange) -> str:
    before, now = ((one["samples"] or 0) if one else 0 for one in (part["before"], part["now"]))
    return f"{before:.0f} -> {now:.0f}"


def _format_line(line: LineChange) -> Iterator[str]:
    """Yield the change of a line, and its text: both where it changed."""
    was, then = line["at_before"], line["at_now"]
    fate = "" if line["fate"] == "same" else f"{line['fate']} "
    start = f"  {fate + _describe_places(was, then):{_WIDTH}}"
    yield f"{start} {_format_sides(line, 'none')}  {_format_counts(line)}"
    if line["fate"] == "changed" and was and then:
        yield from _format_text("-", was)
        yield from _format_text("+", then)
    else:
        sign = {"new": "+", "gone": "-"}.get(line["fate"], " ")
        yield from _format_text(sign, then or was)


def _describe_places(was: SourcePoint | None, then: SourcePoint | None) -> str:
    """Return where a line was and is, each part once: ``a.cu:3 -> 5``."""
    places = [f"{PurePath(p['file']).name}:{p['line']}" for p in (was, then) if p]
    if was and then and PurePath(was["file"]).name == PurePath(then["file"]).name:
        places[1] = str(then["line"]) if then["line"] != was["line"] else ""
    return " -> ".join(filter(None, places))


def _format_text(sign: str, point: SourcePoint | None) -> Iterator[str]:
    if point and point["text"]:
        yield f"    {sign} {point['line']:>4} | {point['text'][:_MAX_TEXT_CHARS]}"


def _format_falsifier(check: FalsifierCheck | None) -> Iterator[str]:
    yield ""
    if check is None:
        yield "No falsifier: the old report names no cause that one could refute"
        return
    now = "unknown" if check["now"] is None else f"{check['now']:.4g}"
    yield f"Falsifier of {check['bottleneck']}: {check['says']}"
    comparison = f"{check['metric']} {check['op']} {check['value']:.4g}"
    yield f"  {comparison}: {check['before']:.4g} before, {now} now"


def _format_binding(binds: NowBinding) -> Iterator[str]:
    yield ""
    if binds["bottleneck"] is None:
        rest = f"; {binds['do']}" if binds["do"] else ""
        yield f"Now binds: no cause can be named{rest}"
    else:
        gain = binds["predicted_speedup"]
        told = f", predicted {format_speedup(gain)}" if gain else ""
        again = ", as before" if binds["was_before"] else ""
        yield f"Now binds {binds['bottleneck']}{again}, confidence {binds['confidence']:.2f}{told}"
        lines = binds["lines"]
        if lines is not None:
            first: LineAnswer = {"lines": lines["lines"][:1], "reason": lines["reason"]}
            yield from format_source_lines(first)
        if binds["fix"]:
            yield f"     fix {binds['fix']}: {binds['do']}"
    if binds["gate"] in ("stop", "done"):
        yield f"  {binds['gate'].upper()}: {binds['because']}"
