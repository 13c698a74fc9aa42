"""Windows of two processes → a speedup, and what both clocks say of it.

A window's time is what the judge's clock saw, less what the same clock saw beyond the device's
own events in the rival's windows: the way there and back, which is the same for both.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from kernelkb.measure.statistics import Speedup, paired_speedup

_CLOCKS_DIFFER = 0.10
_WAY_NS = 1e4
"""How much longer the way there and back may be to one process than to another: 6 us were seen
between two pairs of processes on an H100, over 200 comparisons of a kernel with itself."""
_WAY_UNSURE = 0.5
"""The same as a share of the way, where stopping a process with its threads is most of it."""
_COPY_UNSURE = 0.5
"""How far off the rival's copies may be from what the candidate's take: 0.3 were seen, where one of
two processes had its pages and the other had not."""
_CROWDED = 0.25
_FEWEST_LEFT = 5
_MANY_CALLS = 8
_NEARLY_ALL = 0.5
_SHARED = 2.0
_SHARED_NS = 3e5
_WAKING_NS = 5e5  # an idle machine: 0.15 ms, over the threads of one window


class Window(NamedTuple):
    """One window, as the judge reports it: nanoseconds for all its calls; seconds at its ends."""

    outer_ns: float
    inner_ns: float
    calls: int
    start: float
    end: float
    copy_ns: float = 0.0
    """For copies of what was returned, which is no work of the kernel; by the runner's clock."""
    waited_ns: float = 0.0
    quiet_ns: float = 0.0
    """For reading a known amount on the GPU just before, while all processes stood still."""
    told_copy_ns: float = 0.0
    """The same by the candidate's own account, where ``copy_ns`` is what the rival took."""


Pair = tuple[Window, Window]
"""Candidate and rival, one after the other."""


def crowded(window: Window) -> bool:
    """Say whether its threads had to wait for cores that others used."""
    return window.waited_ns > _WAKING_NS + _CROWDED * window.outer_ns


def shared(window: Window, quiet_ns: float) -> bool:
    """Say whether the GPU had other work when nobody should have had any.

    On an H100 it took 0.06 ms before, and 0.15 ms at most before 136 windows of an honest kernel.

    Args:
        window: The one that followed.
        quiet_ns: For the same reading before the candidate was loaded; 0 where that is not known.
    """
    return quiet_ns > 0 and window.quiet_ns > _SHARED * quiet_ns + _SHARED_NS


class Sifted(NamedTuple):
    """Pairs, and those in which nothing slowed one side down: heat, or somebody else."""

    pairs: Sequence[Pair]
    cool: Sequence[Pair]
    calm: Sequence[Pair]
    shared_count: int = 0
    """Cool pairs in which the GPU had other work."""

    @property
    def hot(self) -> bool:
        """Whether too few are cool."""
        return len(self.cool) < _FEWEST_LEFT

    @property
    def busy(self) -> bool:
        """Whether others used the machine most of the time: what is left is no fair sample."""
        return len(self.calm) < max(_FEWEST_LEFT, len(self.cool) / 2) and not self.hot

    @property
    def kept(self) -> Sequence[Pair]:
        """The pairs to go by; where they decide nothing, all that there are."""
        return self.pairs if self.hot else self.cool if self.busy else self.calm


def sifted(pairs: Sequence[Pair], cool: Sequence[Pair], quiet_ns: float = 0.0) -> Sifted:
    """Tell the calm pairs among the cool ones; ``quiet_ns`` as in ``shared``."""
    alone = [pair for pair in cool if not any(shared(one, quiet_ns) for one in pair)]
    calm = [pair for pair in alone if not any(map(crowded, pair))]
    return Sifted(pairs, cool, calm, len(cool) - len(alone))


def way(kept: Sequence[Pair]) -> float:
    """Return the nanoseconds of the way there and back; what is above it is a busy machine."""
    gaps = sorted(rival.outer_ns - rival.inner_ns - rival.copy_ns for _, rival in kept)
    return gaps[len(gaps) // 4]


def _seen_ns(window: Window, gap: float) -> float:
    """Return the time of a window's calls; never less than a tenth of what the clock saw."""
    return max(window.outer_ns - gap - window.copy_ns, 0.1 * window.outer_ns)


def returned(pairs: Sequence[Pair], otherwise_ns: float) -> list[Pair]:
    """Let the rival, which returns as much, say what the candidate's copies took.

    Args:
        pairs: As measured.
        otherwise_ns: For the copies of one call, where the rival returns nothing.
    """
    found = []
    for one, rival in pairs:
        each = rival.copy_ns / rival.calls or otherwise_ns
        told = one._replace(told_copy_ns=one.copy_ns, copy_ns=each * one.calls)
        found.append((told, rival))
    return found


def _way_unknown(window: Window, gap: float) -> float:
    return max(_WAY_NS, _WAY_UNSURE * gap) / window.outer_ns


def _unknown(windows: Sequence[Window], gap: float) -> float:
    """Return the share of a window that the judge's clock cannot tell from its calls."""
    return statistics.median(
        _way_unknown(w, gap) + _COPY_UNSURE * w.copy_ns / w.outer_ns for w in windows
    )


def disagreement(windows: Sequence[Window], gap: float) -> str | None:
    """Say that the candidate's process tells another time than the judge's clock.

    A busy machine makes the judge see more: as much as threads stood in line for a core, and in
    many windows; a clock that lies, in all of them. What the candidate says of its copies is
    believed here: it is not what its speedup is made of.
    """
    shares = sorted(
        (w.outer_ns - gap - w.inner_ns - w.told_copy_ns - w.waited_ns) / w.outer_ns for w in windows
    )
    least = shares[len(shares) // 10]
    unknown = statistics.median(_way_unknown(w, gap) for w in windows)
    if least <= _CLOCKS_DIFFER + unknown:
        return None
    return (
        f"by its own process's clock it took {1 - least:.0%} of what the judge's clock saw; "
        f"work went on outside the stream, or the clock was changed"
    )


def works_ahead(alone: Sequence[Window], windows: Sequence[Window], gap: float) -> str | None:
    """Say that a call by itself takes nearly as long as many in a row.

    Then it does the work of calls that were not made yet, which nobody who calls it once gains by.

    Args:
        alone: Windows of one call, of which nobody knew before that they would be.
        windows: The candidate's others.
        gap: See ``way``.
    """
    calls = statistics.median(window.calls for window in windows)
    if calls < _MANY_CALLS or not alone:
        return None
    seen = sorted(w.outer_ns - gap - w.told_copy_ns - w.waited_ns for w in alone)
    one = seen[len(seen) // 4] - max(_WAY_NS, _WAY_UNSURE * gap)
    many = statistics.median(_seen_ns(w, gap) for w in windows)
    if one <= _NEARLY_ALL * many:
        return None
    return (
        f"a call by itself took {one / 1e3:.3g} us, {calls:.0f} in a row {many / 1e3:.3g} us: it "
        f"does the work of calls that are yet to come"
    )


def compared(
    kept: Sequence[Pair], gap: float
) -> tuple[Speedup, Speedup, list[tuple[float, float]]]:
    """Return the speedup by the judge's clock, the one to report, and the times it rests on.

    The times are nanoseconds of a call of candidate and rival, pair by pair.

    The runners' own clocks are finer: no way there and back is in them. They may sharpen what the
    judge saw, inside its interval, and never make a gain larger; outside it only the judge is
    believed. Where they do, of the judge's speedup only the point counts: it has to lie on the
    same side. The judge's interval has room for what its clock cannot know, that the way differs
    from process to process.
    """
    sides = list(zip(*kept, strict=True))
    outer = [[_seen_ns(one, gap) / one.calls for one in side] for side in sides]
    inner = [[one.inner_ns / one.calls for one in side] for side in sides]
    room = 1 + max(_unknown(side, gap) for side in sides)
    point, low, high = paired_speedup(*outer)
    judge = Speedup(point, low / room, high * room)
    by_judge = list(zip(*outer, strict=True))
    if min(map(min, inner)) <= 0:
        return judge, judge, by_judge
    own = paired_speedup(*inner)
    if not judge.low <= own.point <= judge.high:
        return judge, judge, by_judge
    flattered = own.point / max(1.0, point)
    if flattered > 1.0:
        own = Speedup(*(value / flattered for value in own))
        inner[0] = [value * flattered for value in inner[0]]
    return Speedup(point, point, point), own, list(zip(*inner, strict=True))


def agreed(
    own: Literal["faster", "slower", "inconclusive"],
    judge: Literal["faster", "slower", "inconclusive"],
) -> Literal["faster", "slower", "inconclusive"]:
    """Return what both clocks say; what the judge did not see did not happen."""
    return own if own == judge else "inconclusive"
