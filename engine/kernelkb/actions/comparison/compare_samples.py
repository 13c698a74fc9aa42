"""Compares the samples of two launches: by stall reason, and by line of the source."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from kernelkb.actions.comparison.compare_lines import (
    SampledLines,
    compare_lines,
    count_line_samples,
    make_amount,
)
from kernelkb.model.answers.report_comparison import Amount, LineChange, PartChange, SampleChanges
from kernelkb.profiles.source_counters import read_source_counters
from kernelkb.sass.counters import STALL_PREFIX, SourceCounters

_ChangeT = TypeVar("_ChangeT", PartChange, LineChange)
_MIN_CHANGE = 0.01
"""Least change that is told, as a share of the longer duration."""
_NOTHING_COUNTED = (
    "{path} counts nothing by instruction; ncu --section SourceCounters --import-source yes "
    "records it"
)


class LaunchSamples(NamedTuple):
    """What was counted in a launch by instruction, or why there is nothing."""

    counters: SourceCounters | None
    reason: str | None


def read_launch_samples(launches: Sequence[tuple[Path, int]]) -> list[LaunchSamples]:
    """Return what was counted in launches of binary reports, each with its index."""
    indices: dict[Path, list[int]] = {}
    for path, index in launches:
        indices.setdefault(path, []).append(index)
    with ThreadPoolExecutor() as pool:  # each waits for a process
        started = {path: pool.submit(read_source_counters, path, indices[path]) for path in indices}
    counted = {
        (path, index): counters
        for path, future in started.items()
        for index, counters in zip(indices[path], future.result(), strict=True)
    }
    return [_build_samples(path, counted[path, index]) for path, index in launches]


def _build_samples(path: Path, counters: SourceCounters | str | None) -> LaunchSamples:
    if isinstance(counters, str):
        return LaunchSamples(None, counters)
    if counters is None or not counters.get_counts("samples"):
        return LaunchSamples(None, _NOTHING_COUNTED.format(path=path.name))
    return LaunchSamples(counters, None)


def compare_samples(
    before: SourceCounters, now: SourceCounters, durations_us: tuple[float | None, float | None]
) -> SampleChanges:
    """Return the stalls and lines whose share of the duration changed, the largest change first.

    Args:
        before: Of the old launch.
        now: Of the new one.
        durations_us: Of both; without them, shares of the samples are compared.
    """
    old = count_line_samples(before, durations_us[0])
    new = count_line_samples(now, durations_us[1])
    reason = _explain_lines(old, new)
    lines = compare_lines(old, new) if old.counts and new.counts else []
    return {
        "total_before": old.total,
        "total_now": new.total,
        "stalls": _keep_changed(_compare_stalls(before, now, old, new), durations_us),
        "lines": _keep_changed(lines, durations_us),
        "lines_reason": reason,
    }


def _explain_lines(before: SampledLines, now: SampledLines) -> str | None:
    """Return why lines cannot be compared, or not by their text; None if they can."""
    for name, side in (("old", before), ("new", now)):
        if not side.counts:
            return f"the code of the {name} report was compiled without -lineinfo"
    for name, side in (("old", before), ("new", now)):
        if not any(side.list_text(place.file) for place in side.counts):
            return f"matched by number: the {name} report holds no source (--import-source yes)"
    return None


def _compare_stalls(
    before: SourceCounters, now: SourceCounters, old: SampledLines, new: SampledLines
) -> list[PartChange]:
    changes: list[PartChange] = []
    for name in sorted({*before.list_stalls(), *now.list_stalls()}):
        reason = name.removeprefix(STALL_PREFIX)
        title = reason.replace("_", " ")
        amounts = _count_stall(before, name, old), _count_stall(now, name, new)
        changes.append(
            {
                "part": reason,
                "title": title,
                "title_now": title,
                "before": amounts[0],
                "now": amounts[1],
            }
        )
    return changes


def _count_stall(counters: SourceCounters, name: str, lines: SampledLines) -> Amount | None:
    count = sum(counters.get_counts(name).values())
    return make_amount(count, lines.total, lines.duration_us) if count else None


def _keep_changed(
    changes: Sequence[_ChangeT], durations_us: tuple[float | None, float | None]
) -> list[_ChangeT]:
    """Return the changes that matter, the largest first."""
    known = [us for us in durations_us if us is not None]
    is_timed = len(known) == len(durations_us)
    least = _MIN_CHANGE * (max(known) if is_timed else 1.0)
    sized = [
        (abs(_weigh(one["now"], is_timed) - _weigh(one["before"], is_timed)), one)
        for one in changes
    ]
    kept = [pair for pair in sized if pair[0] >= least]
    return [one for _, one in sorted(kept, key=lambda pair: -pair[0])]


def _weigh(amount: Amount | None, is_timed: bool) -> float:
    if amount is None:
        return 0.0
    return (amount["us"] or 0.0) if is_timed else amount["share"]
