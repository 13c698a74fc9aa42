"""Formats the rows of a sweep as they end, and the whole as a table."""

from __future__ import annotations

from collections.abc import Iterable

from kernelkb.model.records.measurement import Bench
from kernelkb.model.records.sweep import Sweep, SweepLane, SweepRow
from kernelkb.render.text.resource_use import describe_verdict
from kernelkb.safety.untrusted_text import quote_excerpt
from kernelkb.units import format_duration


def format_row(row: SweepRow) -> str:
    """Return one line: what was judged, where, the verdict, and the time or why there is none."""
    where = f" on {row.lane}" if row.lane else ""
    return f"{_name(row)}{where}: {_describe_verdict(row)}; {_describe_found(row)}"


def format_sweep(sweep: Sweep) -> list[str]:
    """Return the table, sorted by name, what was left out, the counts and the lanes."""
    rows = [
        (_name(row), _describe_verdict(row), _format_time(row.bench), _describe_found(row))
        for row in sweep.rows
    ]
    lines = _align([("kernel", "verdict", "time", "found"), *rows])
    lines += [f"{name}: left out, {reason}" for name, reason in sorted(sweep.left_out.items())]
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sweep.counts.items())
    left = f"; {sweep.not_judged_count} not judged" if sweep.not_judged_count else ""
    lines.append(f"{len(sweep.rows)} in {sweep.seconds:.0f} s: {counts or 'none'}{left}")
    return [*lines, *map(_format_lane, sweep.lanes)]


def _name(row: SweepRow) -> str:
    parts = (row.kernel, row.variant, row.target and f"({row.target})")
    return " ".join(part for part in parts if part)


def _describe_verdict(row: SweepRow) -> str:
    return (describe_verdict(row.bench) if row.bench else None) or row.verdict


def _describe_found(row: SweepRow) -> str:
    bench = row.bench
    if bench is not None and bench.candidate_us is not None and bench.interval is not None:
        low, high = bench.interval
        ratio = f"{bench.speedup:.3g}x [{low:.3g}, {high:.3g}] of {bench.baseline}"
        return f"{ratio} on {bench.workload}, {row.device}"
    if row.check is not None and row.verdict == "correct":
        largest = max(case.max_abs_error or 0.0 for case in row.check.cases)
        count = len(row.check.cases) + len(row.check.hidden_inputs)
        return f"largest error {largest:.1e}, {count} cases, {row.device}"
    return quote_excerpt(row.detail) if row.detail else "no detail"


def _format_time(bench: Bench | None) -> str:
    return format_duration(bench.candidate_us) if bench and bench.candidate_us else "-"


def _format_lane(lane: SweepLane) -> str:
    share = "" if lane.busy_share is None else f", busy {lane.busy_share:.0%} of the time"
    return f"{lane.lane} ({lane.model}): {lane.judged_count} judged{share}"


def _align(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return rows as lines, with columns of one width but the last."""
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)][:-1]
    return [
        "  ".join([*(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in listed
    ]
