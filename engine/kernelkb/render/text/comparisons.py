"""Text of two reports compared: a whole call in a few lines, or one kernel on a screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from kernelkb.render.text.answers import format_source_lines, format_speedup
from kernelkb.units import format_duration, format_size

if TYPE_CHECKING:
    from kernelkb.model.answers.report_comparison import (
        Amount,
        CallChange,
        FalsifierCheck,
        KernelComparison,
        KernelTotal,
        LaunchSide,
        LevelChange,
        LineChange,
        NowBinding,
        PartChange,
        PredictionCheck,
        ReportComparison,
        SourcePoint,
    )
    from kernelkb.model.answers.source_place import LineAnswer

_MAX_PARTS = 3
_MAX_STALLS = 3
_MAX_LINES = 4
_MAX_CHANGED = 3
"""Kernels of a call that are told with where their time moved."""
_MAX_ROWS = 8
_MAX_MOVES = 2
"""Lines and stalls of a kernel of a call."""
_MAX_LINE_TEXT = 48
_MAX_TEXT_CHARS = 84
_MAX_KERNEL_CHARS = 60
_WIDTH = 36
"""Columns of the names in a table."""
_MILLION = 1e6
_LEAST_MOVE = 0.02
"""Share by which the bytes of a level have to differ to be told."""
_NOISE = 0.03
"""Share by which two profiles of the same call differ (judgement)."""
_NO_BENCH = "profiler durations of one launch each, which are not a bench; kb bench measures a gain"
_NO_GAPS = "profiler durations, without gaps and overlap; not a bench"


def format_report_comparison(comparison: ReportComparison) -> Iterator[str]:
    """Yield a screen for one kernel, or a few lines for each kernel of a call that changed."""
    call, kernels = comparison["call"], comparison["kernels"]
    if len(kernels) == 1 == len(call["kernels"]):
        yield from _format_kernel(kernels[0], call)
        return
    yield from _format_head(call)
    changed = [row for row in call["kernels"] if not row["is_noise"]]
    for at, row in enumerate(changed[:_MAX_ROWS]):
        yield _format_total(row)
        details = _find_details(row, kernels) if at < _MAX_CHANGED else None
        if details is not None:
            yield from _format_details(details)
    yield from _format_rest(call, changed[_MAX_ROWS:])
    if any(row["fate"] in ("kept", "renamed") for row in changed) and kernels:
        yield "--kernel NAME tells one kernel whole"


def _format_head(call: CallChange) -> Iterator[str]:
    launches = f"{call['launches_before']:,} -> {call['launches_now']:,} launches"
    times = _describe_ratio(call["before_us"], call["now_us"]) or _explain_no_total(call)
    if call["source"] == "traces":
        whole = _describe_ratio(call["span_before_us"], call["span_now_us"])
        idle = [format_duration(us or 0.0) for us in (call["idle_before_us"], call["idle_now_us"])]
        yield f"program: {whole or 'not timed'}, from the first work of the GPU to the last"
        yield f"  kernels {times}; GPU idle {idle[0]} -> {idle[1]}; {launches}"
    else:
        yield f"call: {times}, {launches}"
        yield f"  ({_NO_GAPS})"
    yield from (f"  note: {note}" for note in call["notes"])
    if moved := list(_describe_levels(call["levels"])):
        yield f"  moved in all: {', '.join(moved)}"


def _describe_ratio(before: float | None, now: float | None) -> str:
    if not before or not now:
        return ""
    noise = " (no more than noise)" if abs(now - before) <= _NOISE * max(before, now) else ""
    ratio = f"{before / now:.3g}x as fast{noise}"
    return f"{format_duration(before)} -> {format_duration(now)}, {ratio}"


def _explain_no_total(call: CallChange) -> str:
    rows = call["kernels"]
    untimed = [row for row in rows if row["before_us"] is None or row["now_us"] is None]
    names = dict.fromkeys(name for row in untimed for name in (*row["before"], *row["now"]))
    return f"no total, {', '.join(names) or 'one side'} has no duration"


def _describe_levels(levels: Sequence[LevelChange]) -> Iterator[str]:
    """Yield what moved where it changed: ``DRAM read 1.2 GiB -> 0.6 GiB``."""
    for level in levels:
        before, now = level["before"], level["now"]
        if before is None or now is None:
            yield f"{level['title']} not counted {'before' if before is None else 'now'}"
        elif abs(now - before) > _LEAST_MOVE * max(before, now):
            sides = [_format_amount_moved(level, side) for side in (before, now)]
            yield f"{level['title']} {sides[0]} -> {sides[1]}"


def _format_amount_moved(level: LevelChange, amount: float) -> str:
    if level["unit"] == "passes":
        many = amount >= _MILLION
        return f"{amount / _MILLION:.3g} million passes" if many else f"{amount:,.0f} passes"
    return format_size(round(amount))


def _format_total(row: KernelTotal) -> str:
    before, now = " + ".join(row["before"]), " + ".join(row["now"])
    if not row["before"] or not row["now"]:
        us = row["before_us"] if row["before"] else row["now_us"]
        count = row["launches_before"] or row["launches_now"]
        told = format_duration(us) if us else "no duration"
        return f"{row['fate']}: {(before or now)[:_MAX_KERNEL_CHARS]} {told}{_count(count)}"
    name = before if row["before"] == row["now"] else f"{before} -> {now}"
    how = f" ({row['fate']}, by the names)" if row["fate"] not in ("kept", "new", "gone") else ""
    counts = row["launches_before"], row["launches_now"]
    launches = _count(counts[0]) if counts[0] == counts[1] else f", {counts[0]} -> {counts[1]}"
    if counts[0] != counts[1]:
        launches += " launches"
    old, new = row["before_us"], row["now_us"]
    if old is None or new is None:
        return f"{name}{how}: a launch has no duration{launches}"
    moved = f"{format_duration(old)} -> {format_duration(new)} ({new - old:+.2f} us)"
    return f"{name}{how}: {moved}{launches}"


def _count(launches: int) -> str:
    return f", {launches:,} launches" if launches > 1 else ""


def _find_details(row: KernelTotal, kernels: Sequence[KernelComparison]) -> KernelComparison | None:
    return next((one for one in kernels if one["before"]["name"] in row["before"]), None)


def _format_details(kernel: KernelComparison) -> Iterator[str]:
    """Yield where the time of a kernel of a call moved, in at most six lines."""
    yield from (f"  note: {note}" for note in kernel["notes"])
    samples = kernel["samples"]
    if samples is None:
        moved = kernel["time"][:_MAX_MOVES]
        parts = [f"{part['title']} {_describe_move(part)}" for part in moved]
        if parts:
            yield f"  time: {', '.join(parts)}"
    else:
        for line in samples["lines"][:_MAX_MOVES]:
            yield f"  {_describe_line(line)}"
        stalls = [
            f"{stall['title']} {_describe_move(stall)}" for stall in samples["stalls"][:_MAX_MOVES]
        ]
        if stalls:
            yield f"  stalls: {', '.join(stalls)}"
    if launch := list(_describe_launch_changes(kernel)):
        yield f"  {'; '.join(launch)}"
    if told := _describe_promise(kernel):
        yield f"  {told}"


def _describe_move(part: PartChange | LineChange) -> str:
    """Return the microseconds of a part, or without durations its shares: ``4.0 -> 20.1 us``."""
    sides = part["before"], part["now"]
    if any(side is not None and side["us"] is None for side in sides):
        return f"{100 * _get_share(sides[0]):.0f} % -> {100 * _get_share(sides[1]):.0f} %"
    return f"{_get_us(sides[0]):.1f} -> {_get_us(sides[1]):.1f} us"


def _describe_line(line: LineChange) -> str:
    was, then = line["at_before"], line["at_now"]
    fate = "" if line["fate"] == "same" else f"{line['fate']} "
    point = then or was
    text = f" | {point['text'][:_MAX_LINE_TEXT]}" if point and point["text"] else ""
    return f"{fate}{_describe_places(was, then)}: {_describe_move(line)}{text}"


def _describe_launch_changes(kernel: KernelComparison) -> Iterator[str]:
    """Yield the bytes that moved, then what changed of the launch and of what is resident."""
    yield from _describe_levels([one for one in kernel["levels"] if None not in _sides(one)])
    before, now = kernel["before"], kernel["now"]
    shapes = ("grid", before["grid"], now["grid"]), ("block", before["block"], now["block"])
    yield from (f"{name} {old} -> {new}" for name, old, new in shapes if old != new)
    for one in kernel["launch"]:
        yield f"{one['title']} {_number(one['before'])} -> {_number(one['now'])}"


def _sides(level: LevelChange) -> tuple[float | None, float | None]:
    return level["before"], level["now"]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _describe_promise(kernel: KernelComparison) -> str:
    """Return what was told for the old state beside what was got, and whether its rule held."""
    told, rule = kernel["prediction"], kernel["falsifier"]
    words = [describe_prediction(told)] if told else []
    if rule is not None and rule["held"] is not None:
        held = "held" if rule["held"] else "did not hold"
        words.append(f"{rule['metric']} {rule['op']} {rule['value']:.3g} {held}")
    return "; ".join(words)


def describe_prediction(told: PredictionCheck) -> str:
    """Return a prediction beside what was got: ``told ... 1.8x [1.4, 2.3], got 1.2x: below``."""
    where = {"below": "below the interval", "inside": "inside", "above": "above the interval"}
    gain = format_speedup(told["predicted"])
    return f"told {told['fix']} {gain}, got {told['measured']:.3g}x: {where[told['verdict']]}"


def _format_rest(call: CallChange, more: Sequence[KernelTotal]) -> Iterator[str]:
    """Yield the kernels that are not told one by one: those without a change, and the smaller."""
    same = [row for row in call["kernels"] if row["is_noise"]]
    for words, rows in (("unchanged within noise", same), ("changed less", more)):
        if rows:
            named = [f"{' -> '.join(dict.fromkeys(_names(row)))}" for row in rows[:_MAX_ROWS]]
            left = f" and {len(rows) - _MAX_ROWS} more" if len(rows) > _MAX_ROWS else ""
            us = sum(row["now_us"] or 0.0 for row in rows)
            yield f"{words}: {', '.join(named)}{left} ({format_duration(us)} now)"


def _names(row: KernelTotal) -> list[str]:
    return [" + ".join(side) for side in (row["before"], row["now"]) if side]


def _format_kernel(kernel: KernelComparison, call: CallChange) -> Iterator[str]:
    before, now = kernel["before"], kernel["now"]
    name = " -> ".join(dict.fromkeys((before["name"], now["name"])))
    yield f"{name}: {_describe_times(kernel)}"
    yield f"  ({_NO_BENCH})"
    if max(call["launches_before"], call["launches_now"]) > 1:
        yield f"  the longest of its launches; all: {_format_total(call['kernels'][0])}"
    is_named = before["kernel"] != now["kernel"]
    yield f"  before  {_describe_launch(before, is_named=is_named)}"
    yield f"  now     {_describe_launch(now, is_named=is_named)}"
    yield from (f"  note: {note}" for note in kernel["notes"])
    if changes := list(_describe_launch_changes(kernel)):
        yield f"  {'; '.join(changes)}"
    yield from _format_budget(kernel["time"])
    yield from _format_samples(kernel)
    yield ""
    if kernel["prediction"] is not None:
        yield describe_prediction(kernel["prediction"]).capitalize()
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
    for part in parts[:_MAX_PARTS]:
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
    if check is None:
        yield "No falsifier: no cause of the old report is one that this could refute"
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
