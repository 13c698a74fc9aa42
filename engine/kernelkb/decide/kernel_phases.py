"""Divides the time inside a kernel, and between the kernels of a call.

Inside it are ramp, phases and tail, from counters sampled as it ran.

Nsight Compute samples some counters every one or two microseconds (section PmSampling). The SMs'
active cycles say when the kernel begins, when all its SMs work and when they run out of blocks; in
between, a phase ends where what a resource is used for changes for good. Between kernels are gaps,
and what one leaves in L2 for the next, which a profiler that empties the caches does not show.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, pairwise
from math import dist, fsum, hypot, inf, sqrt
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import KernelPhase, KernelTimeline

ACTIVE, BLOCKS = "active", "blocks"
"""Series besides those of resources: active cycles of an SM, and blocks launched."""

_LEAST_SAMPLES = 8
"""Of a kernel; in fewer nothing can be told apart."""
_MOST_MISSING = 1.5
"""Samples by which the duration may be longer than what was sampled."""
_LEAST_COVERED = 0.85
"""Share of the duration that samples of the whole cover: those of 239 launches are of another run
of the kernel, and cover 0.92 to 1.04."""
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


_QUEUED_US = 5.0
"""Gap from which on the next launch came late, as the host was busy or waited (chosen)."""
_GRAPH_GAP_US = (0.35, 1.5)
"""Left between two kernels of a graph: empty ones follow every 1.3 us and take 0.95 (H100); 1.5 is
chosen."""
_LEAST_GAPS = 3
_LEAST_KEPT = 0.05
"""Share of a kernel's time from which on it is told what L2 could keep for it."""


class Samples(NamedTuple):
    """Counters sampled as a launch ran, at equal distances."""

    interval_us: float
    series: Mapping[str, tuple[float, ...]]
    """``active`` and ``blocks``, and by resource the share of its peak, 0 to 1."""
    missing_count: int = 0
    """Of samples that were dropped, as times tell; the one before stands in their place."""


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
    covered_us = (end - start) * step
    missing_us = (duration_us or inf) - covered_us
    ends = end < len(active) or missing_us < _MOST_MISSING * step
    ends = ends and covered_us >= _LEAST_COVERED * (duration_us or 0.0)
    lost = sum(max(0.0, 1 - shares[at]) for at in range(last, end))
    return {
        "interval_us": step,
        "duration_us": round((end - start) * step, 3),
        "is_whole": ends,
        "kernel_us": duration_us,
        "missing_count": samples.missing_count,
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
    cuts = _find_cuts(list(used.values()), first, last) if used else []
    bounds = list(pairwise([first, *cuts, last]))
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


class _Changes:
    """Finds the largest change in stretches of some series, each stretch once."""

    def __init__(self, rows: Sequence[Sequence[float]], least: int) -> None:
        self._rows, self._least = rows, least
        self._found: dict[tuple[int, int], tuple[float, int] | None] = {}

    def find(self, begin: int, end: int) -> tuple[float, int] | None:
        """Return how much better other means explain a stretch than one, and where they begin.

        None where no resource changes by more than phases differ. Where the first and last parts
        are alike, and only what is between them differs, it is where that begins.
        """
        if (begin, end) not in self._found:
            self._found[begin, end] = self._search(begin, end)
        return self._found[begin, end]

    def _search(self, begin: int, end: int) -> tuple[float, int] | None:
        length, least = end - begin, self._least
        if length < 2 * least:
            return None
        rows = [row[begin:end] for row in self._rows]
        offsets = list(zip(*map(_sum_offsets, rows), strict=True))
        gain, cut = max(
            (length * hypot(*offsets[cut]) ** 2 / (cut * (length - cut)), cut)
            for cut in range(least, length - least + 1)
        )
        if any(_differs(row[:cut], row[cut:]) for row in rows):
            return gain, begin + cut
        window = self._find_window(offsets)
        if window is None:
            return None
        gain, start, stop = window
        if any(_differs(row[start:stop], [*row[:start], *row[stop:]]) for row in rows):
            return gain, begin + start
        return None

    def _find_window(self, offsets: Sequence[tuple[float, ...]]) -> tuple[float, int, int] | None:
        """Return the gain, start and end of what differs most from what is around it."""
        length = len(offsets) - 1
        step = max(self._least, -(-length // _WINDOWS))
        return max(
            (
                (
                    length
                    * dist(offsets[start], offsets[stop]) ** 2
                    / ((stop - start) * (length - stop + start)),
                    start,
                    stop,
                )
                for start in range(step, length, step)
                for stop in range(start + step, length - self._least, step)
            ),
            default=None,
        )


def _find_cuts(rows: Sequence[Sequence[float]], first: int, last: int) -> list[int]:
    """Return where phases begin, besides the first: the largest change first, up to a number."""
    changes = _Changes(rows, max(_LEAST_SAMPLES_BETWEEN, int(_LEAST_STRETCH * (last - first))))
    cuts: list[int] = []
    while len(cuts) < _MOST_CHANGES:
        bounds = [first, *sorted(cuts), last]
        found = [best for one in pairwise(bounds) if (best := changes.find(*one)) is not None]
        if not found:
            break
        cuts.append(max(found)[1])
    bounds = [first, *sorted(cuts), last]
    for at in range(1, len(bounds) - 1):
        if exact := changes.find(bounds[at - 1], bounds[at + 1]):
            bounds[at] = exact[1]
    return _join_short(changes, bounds)


def _join_short(changes: _Changes, bounds: list[int]) -> list[int]:
    """Return the cuts without those around short stretches between two phases.

    What is short at the beginning or end stays: there a kernel starts, or runs out of work.
    """
    shortest = _LEAST_PHASE * (bounds[-1] - bounds[0])
    while len(bounds) > 3:  # an inner stretch
        lengths = [end - begin for begin, end in pairwise(bounds)]
        at = min(range(1, len(lengths) - 1), key=lengths.__getitem__)
        if lengths[at] >= shortest:
            break
        joined = changes.find(bounds[at - 1], bounds[at + 2])
        bounds[at : at + 2] = [joined[1]] if joined else []
    return bounds[1:-1]


def _sum_offsets(values: Sequence[float]) -> list[float]:
    """Return how far the sum of the first values, for each number of them, is off their mean's."""
    mean = fmean(values)
    return list(accumulate((value - mean for value in values), initial=0.0))


def _differs(before: Sequence[float], after: Sequence[float]) -> bool:
    means = fmean(before), fmean(after)
    change = abs(means[0] - means[1])
    if change < _LEAST_CHANGE:
        return False
    return change >= _NOISE * max(map(_measure_spread, (before, after), means))


def _measure_spread(values: Sequence[float], mean: float) -> float:
    """Return the standard deviation of all values; ``statistics.pstdev`` takes 10 times as long."""
    return sqrt(fsum((value - mean) ** 2 for value in values) / len(values))


class CallGaps(NamedTuple):
    """What lies between the kernels and copies of a GPU; all times are microseconds."""

    overlap_us: float
    """Summed time in which they run beside others."""
    short: tuple[int, float]
    """Gaps before work that was queued: how many, and their sum."""
    late: tuple[int, float]
    """Longer ones."""
    graph_us: tuple[float, float]
    """What a graph of all saves: without the gaps in which the host waited, and with them."""
    dependent_us: float
    """What programmatic dependent launches save at most, besides what a kernel does before it
    reads."""


def measure_gaps(
    works: Sequence[tuple[float, float]],
    idle: Sequence[tuple[float, float]],
    waits: Sequence[tuple[float, float]],
) -> CallGaps | None:
    """Return what lies between the work of a GPU; None with fewer than three gaps.

    Args:
        works: Start and end of each kernel and copy.
        idle: When none of them ran between the first and the last.
        waits: When the host waited in a call that blocks; none overlap.
    """
    if len(idle) < _LEAST_GAPS:
        return None
    lengths = [end - start for start, end in idle]
    span = max(end for _, end in works) - min(start for start, _ in works)
    short = [one for one in lengths if one <= _QUEUED_US]
    late = [one for one in lengths if one > _QUEUED_US]
    least, most = _GRAPH_GAP_US
    free = [end - start for start, end in idle if not _is_within(start, end, waits)]
    return CallGaps(
        overlap_us=max(0.0, sum(end - start for start, end in works) - (span - sum(lengths))),
        short=(len(short), sum(short)),
        late=(len(late), sum(late)),
        graph_us=(
            sum(max(0.0, one - most) for one in free),
            sum(max(0.0, one - least) for one in lengths),
        ),
        dependent_us=sum(short),
    )


def word_gaps(gaps: CallGaps) -> str:
    """Return what lies between kernels, and what a graph and dependent launches give."""
    kinds = (gaps.short, f"up to {_QUEUED_US:g} us"), (gaps.late, f"above {_QUEUED_US:g} us")
    told = [f"{n:,} {size}, {format_duration(us)}" for (n, us), size in kinds if n]
    less, most = map(format_duration, gaps.graph_us)
    told.append(f"a graph saves {less}" + (f" to {most}" if most != less else ""))
    if gaps.dependent_us:
        told.append(f"programmatic dependent launches up to {format_duration(gaps.dependent_us)}")
    if gaps.overlap_us:
        told.append(f"{format_duration(gaps.overlap_us)} overlap")
    return f"gaps: {'; '.join(told)}"


def _is_within(start: float, end: float, waits: Sequence[tuple[float, float]]) -> bool:
    """Return whether most of a gap lies in a wait; waits are in their order."""
    at = bisect_right(waits, ((start + end) / 2, inf)) - 1
    return at >= 0 and waits[at][1] >= (start + end) / 2


class KeptBytes(NamedTuple):
    """What a kernel leaves in L2 for the next one, at most."""

    read_bytes: float
    """Of what the next one reads from DRAM."""
    dirty_bytes: float
    """Written and not yet in DRAM: they are written back while the next one runs."""
    saved_us: float | None
    """By which the next one is faster than measured, at most."""


def find_kept_bytes(
    before: Mapping[str, float], now: Mapping[str, float], gpu: Mapping[str, float]
) -> KeptBytes | None:
    """Return what L2 could keep between two kernels; None where it is little or not known.

    Args:
        before: Metrics of a kernel whose caches the profiler emptied.
        now: Of the next one.
        gpu: Facts of the GPU, by ``device.<fact>``.
    """
    sectors, read = before.get("plain_write_sector_count"), now.get("dram_read_bytes")
    room = gpu.get("device.l2_bytes")
    if not sectors or not read or not room:
        return None
    written = min(room, 32 * sectors)
    kept, dirty = min(written, read), max(0.0, written - before.get("dram_write_bytes", written))
    rate, lasts = gpu.get("device.dram_bytes_us"), now.get("profiled_us")
    if rate and lasts and max(kept, dirty) / rate < _LEAST_KEPT * lasts:
        return None
    return KeptBytes(kept, dirty, min(lasts or inf, kept / rate) if rate else None)
