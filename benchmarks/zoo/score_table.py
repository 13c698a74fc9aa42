"""Formats the score of the advice as a table, for the terminal and the README."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.zoo.score import AdviceError, Score, ScoreRow
from benchmarks.zoo.score_lines import LineScore

_COLUMNS = (
    "",
    "first cause",
    "in three",
    "first change",
    "gain within 1.4x",
    "within 2x",
    "median error",
    "intervals hold (50, 80, 95 %)",
)


def format_score_lines(score: Score) -> Iterator[str]:
    """Yield the table, then false promises, falsifiers and the worst predictions."""
    yield from format_score_table(score)
    yield ""
    yield _describe_timing(score)
    yield (
        f"at their roof: {score.roof_count} kernels, {len(score.roof_alarms)} promised more than "
        f"1.2x{_list_errors(score.roof_alarms)}"
    )
    yield (
        f"changes without gain: {score.no_gain_count}, {len(score.no_gain_advised)} of them were "
        f"the first advice{_list_errors(score.no_gain_advised)}"
    )
    yield (
        f"changes that tempt: on {score.tempting_count} kernels, {len(score.tempted)} of them "
        f"told first{_list_names(score.tempted)}"
    )
    yield (
        f"falsifiers: {score.falsifiers_held} of {score.falsifier_count} held after the change, "
        f"{score.falsifiers_true_before} were true before it"
    )
    yield from _format_line_score(score.lines)
    yield "worst predictions"
    for row in score.worst:
        cause = row.bottleneck or "no cause"
        gains = f"told {row.told:.3g}x, measured {row.measured:.3g}x"
        yield f"  {row.kernel:34} {row.fix}: {gains} ({cause})"


def _format_line_score(lines: LineScore | None) -> Iterator[str]:
    if lines is None:
        return
    count, right = sum(row.count for row in lines.rows), sum(row.right for row in lines.rows)
    yield (
        f"reports: {_format_count(lines.causes_right, lines.cause_count)} of the first causes, "
        f"told with the machine code"
    )
    yield (
        f"lines: {_format_count(right, count)} of the flaws within two lines, and "
        f"{_format_count(lines.producers_right, lines.producer_count)} of what is waited for"
    )
    for row in lines.rows:
        yield f"  {row.bottleneck:34} {row.right}/{row.count}"
    for miss in lines.misses:
        told = f"line {miss.told}" if miss.told else f"none, {miss.reason}"
        yield f"  {miss.kernel:34} {miss.bottleneck}: told {told}, it is line {miss.wanted}"


def format_score_table(score: Score) -> Iterator[str]:
    """Yield a Markdown table with one row for each predictor."""
    yield f"| {' | '.join(_COLUMNS)} |"
    yield "|---" * len(_COLUMNS) + "|"
    for row in score.rows:
        count = row.pair_count
        cells = (
            row.predictor,
            _format_count(row.first_cause, count),
            _format_count(row.cause_in_three, count),
            "-" if row.first_change is None else _format_count(row.first_change, count),
            _format_count(row.within_14, count),
            _format_count(row.within_2, count),
            f"{row.median_error:.2f}x",
            _format_held(row),
        )
        yield f"| {' | '.join(cells)} |"


def _format_count(found: int, count: int) -> str:
    return f"{found}/{count} ({100 * found / count:.0f} %)" if count else "-"


def _format_held(row: ScoreRow) -> str:
    shares = (row.held_50, row.held_80, row.held_95)
    if None in shares:
        return "-"
    return ", ".join(f"{100 * (share or 0):.0f} %" for share in shares)


def _describe_timing(score: Score) -> str:
    where = ", ".join(score.devices)
    timed = f"; {score.profiler_timed} pairs by profiler durations" if score.profiler_timed else ""
    return f"measured on {where}{timed}"


def _list_names(names: Iterable[str]) -> str:
    told = ", ".join(names)
    return f": {told}" if told else ""


def _list_errors(errors: Iterable[AdviceError]) -> str:
    return _list_names(f"{e.kernel} {e.told:.3g}x, measured {e.measured:.3g}x" for e in errors)
