"""Divides the time inside a kernel into ramp, phases and tail, from counters sampled as it ran.

Nsight Compute samples some counters every one or two microseconds (section PmSampling). The SMs'
active cycles say when the kernel begins, when all its SMs work and when they run out of blocks; in
between, a phase ends where what a resource is used for changes for good.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from math import inf
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import KernelPhase, KernelTimeline

ACTIVE, BLOCKS = "active", "blocks"
"""Series besides those of resources: active cycles of an SM, and blocks launched."""

_LEAST_SAMPLES = 8
"""Of a kernel; in fewer nothing can be told apart."""
_MOST_MISSING = 1.5
"""Samples by which the duration may be longer than what was sampled."""
_PLATEAU = 0.9
"""Place among the sorted samples of the SMs' active cycles that is taken for all SMs at work."""
_BEGUN = 0.003
"""Share of the plateau at which a kernel has begun or not yet ended: less than one of 132 SMs."""
_FULL = 0.9
"""Share of the plateau from which on it is no ramp and no tail (chosen)."""
_LEAST_CHANGE = 0.12
"""Of the peak of a resource, by which phases differ (chosen)."""
_NOISE = 1.5
"""Standard deviations of the samples by which phases differ as well."""
_LEAST_STRETCH = 0.02
"""Share of the kernel's time between two changes, at least."""
_LEAST_SAMPLES_BETWEEN = 4
_LEAST_PHASE = 0.06
"""Share of the kernel's time below which a stretch between two phases is the change itself: SMs
reach it one by one."""
_MOST_CHANGES = 9
_WINDOWS = 32
"""Places at which a stretch that differs from what is before and after it may begin or end."""
_LEAST_USE = 0.1
"""Of its peak, from which on a resource is named."""
_MOST_NAMED = 3
"""Resources of a phase, besides those that change between phases."""


class Samples(NamedTuple):
    """Counters sampled as a launch ran, at equal distances."""

    interval_us: float
    series: Mapping[str, tuple[float, ...]]
    """``active`` and ``blocks``, and by resource the share of its peak, 0 to 1."""


def describe_timeline(
    samples: Samples | None, duration_us: float | None = None
) -> KernelTimeline | None:
    """Return what happens inside a kernel; None without samples, or with too few.

    Args:
        samples: Of one launch, with some before it begins and after it ends.
        duration_us: Of the launch: samples that end with it, as on a T4, are whole, too.
    """
    active = samples.series.get(ACTIVE, ()) if samples else ()
    plateau = _find_plateau(active)
    if samples is None or not plateau:
        return None
    shares = [one / plateau for one in active]
    begun = [at for at, one in enumerate(shares) if one >= _BEGUN]
    start, end = begun[0], begun[-1] + 1
    if end - start < _LEAST_SAMPLES:
        return None
    full = [at for at in range(start, end) if shares[at] >= _FULL]
    first, last = full[0], full[-1] + 1
    step = samples.interval_us
    missing_us = (duration_us or inf) - (end - start) * step
    ends = end < len(active) or missing_us < _MOST_MISSING * step
    lost = sum(max(0.0, 1 - shares[at]) for at in range(last, end))
    return {
        "interval_us": step,
        "duration_us": round((end - start) * step, 3),
        "is_whole": ends,
        "ramp_us": round((first - start) * step, 3),
        "tail_us": round((end - last) * step, 3) if ends else None,
        "lost_us": round(lost * step, 3) if ends else None,
        "last_block_us": _find_last_block(samples, start, end) if ends else None,
        "phases": _list_phases(samples, start, first, last),
    }


def _find_plateau(active: Sequence[float]) -> float:
    """Return the active cycles of an interval in which all SMs with blocks work."""
    least = _BEGUN * max(active, default=0.0)
    busy = sorted(one for one in active if one > least)
    return busy[int(_PLATEAU * (len(busy) - 1))] if busy else 0.0


def _find_last_block(samples: Samples, start: int, end: int) -> float | None:
    blocks = samples.series.get(BLOCKS, ())
    launched = [at for at in range(start, min(end, len(blocks))) if blocks[at] > 0]
    return round((launched[-1] - start) * samples.interval_us, 3) if launched else None


def _list_phases(samples: Samples, start: int, first: int, last: int) -> list[KernelPhase]:
    """Return the phases between ramp and tail."""
    used = {name: row for name, row in samples.series.items() if name not in (ACTIVE, BLOCKS)}
    bounds = list(pairwise([first, *_find_cuts(list(used.values()), first, last), last]))
    means = [{name: fmean(row[begin:end]) for name, row in used.items()} for begin, end in bounds]
    changing = {
        name
        for name in used
        if max(row[name] for row in means) - min(row[name] for row in means) >= _LEAST_CHANGE
    }
    return [
        {
            "from_us": round((begin - start) * samples.interval_us, 3),
            "to_us": round((end - start) * samples.interval_us, 3),
            "use": _name_used(row, changing),
        }
        for (begin, end), row in zip(bounds, means, strict=True)
    ]


def _name_used(means: Mapping[str, float], changing: Collection[str]) -> dict[str, float]:
    """Return what is used most in a phase, and all that changes between phases."""
    ranked = sorted(means, key=lambda name: (-means[name], name))
    most = [name for name in ranked[:_MOST_NAMED] if means[name] >= _LEAST_USE]
    named = [name for name in ranked if name in most or name in changing]
    return {name: round(means[name], 4) for name in named}


def _find_cuts(rows: Sequence[Sequence[float]], first: int, last: int) -> list[int]:
    """Return where phases begin, besides the first: the largest change first, up to a number."""
    least = max(_LEAST_SAMPLES_BETWEEN, int(_LEAST_STRETCH * (last - first)))
    cuts: list[int] = []
    while len(cuts) < _MOST_CHANGES:
        bounds = [first, *sorted(cuts), last]
        found = [
            best
            for begin, end in pairwise(bounds)
            if (best := _find_change(rows, begin, end, least)) is not None
        ]
        if not found:
            break
        cuts.append(max(found)[1])
    bounds = [first, *sorted(cuts), last]
    for at in range(1, len(bounds) - 1):
        if exact := _find_change(rows, bounds[at - 1], bounds[at + 1], least):
            bounds[at] = exact[1]
    return _join_short(rows, bounds, least)


def _join_short(rows: Sequence[Sequence[float]], bounds: list[int], least: int) -> list[int]:
    """Return the cuts without those around short stretches between two phases.

    What is short at the beginning or end stays: there a kernel starts, or runs out of work.
    """
    shortest = _LEAST_PHASE * (bounds[-1] - bounds[0])
    while len(bounds) > 3:  # an inner stretch
        lengths = [end - begin for begin, end in pairwise(bounds)]
        at = min(range(1, len(lengths) - 1), key=lengths.__getitem__)
        if lengths[at] >= shortest:
            break
        outer = bounds[at - 1], bounds[at + 2]
        joined = _find_change(rows, *outer, least)
        bounds[at : at + 2] = [joined[1]] if joined else []
    return bounds[1:-1]


def _find_change(
    rows: Sequence[Sequence[float]], begin: int, end: int, least: int
) -> tuple[float, int] | None:
    """Return how much better other means explain a stretch than one, and where the second begins.

    None where no resource changes by more than phases differ. Where the first and last parts are
    alike, and only what is between them differs, it is where that begins.
    """
    totals = [_accumulate(row[begin:end]) for row in rows]
    length = end - begin
    cuts = range(least, length - least + 1)
    if not cuts:
        return None
    gain, cut = max((_measure_gain(totals, cut, length), cut) for cut in cuts)
    if any(_differs(row[begin : begin + cut], row[begin + cut : end]) for row in rows):
        return gain, begin + cut
    step = max(least, -(-length // _WINDOWS))
    windows = [
        (_measure_gain(totals, start, stop), start, stop)
        for start in range(step, length, step)
        for stop in range(start + step, length - least, step)
    ]
    if not windows:
        return None
    gain, start, stop = max(windows)
    for row in rows:
        outside = [*row[begin : begin + start], *row[begin + stop : end]]
        if _differs(row[begin + start : begin + stop], outside):
            return gain, begin + start
    return None


def _measure_gain(totals: Sequence[Sequence[float]], start: int, stop: int) -> float:
    """Return the squares that two means save: of what is between two places, and of the rest.

    With ``stop`` at the end, of what is before ``start`` and after it.
    """
    length = len(totals[0]) - 1
    inside, outside = stop - start, length - (stop - start)
    gain = 0.0
    for sums in totals:
        within = sums[stop] - sums[start]
        gain += (within / inside - (sums[length] - within) / outside) ** 2
    return gain * inside * outside / length


def _accumulate(values: Sequence[float]) -> list[float]:
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    return sums


def _differs(before: Sequence[float], after: Sequence[float]) -> bool:
    spread = max(pstdev(before), pstdev(after))
    return abs(fmean(before) - fmean(after)) >= max(_LEAST_CHANGE, _NOISE * spread)
