"""Windows of two processes → a speedup, and what both clocks say of it.

A window's time is what the judge's clock saw, less what the same clock saw beyond the device's
own events in the rival's windows: the way there and back, which is the same for both.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from kernelkb.measure.statistics import Speedup, paired_speedup

_MAX_CLOCK_DISAGREEMENT = 0.10
_OVERHEAD_SLACK_NS = 1e4
"""How much longer the way there and back may be to one process than to another: 6 us were seen
between two pairs of processes on an H100, over 200 comparisons of a kernel with itself."""
_OVERHEAD_SLACK_SHARE = 0.5
"""The same as a share of the way, where stopping a process with its threads is most of it."""
_COPY_SLACK_SHARE = 0.5
"""How far off the rival's copies may be from what the candidate's take: 0.3 were seen, where one of
two processes had its pages and the other had not."""
_CPU_CONTENTION_SHARE = 0.25
_MIN_USABLE_PAIRS = 5
_MIN_BATCH_CALLS = 8
_MAX_SINGLE_CALL_SHARE = 0.5
_GPU_CONTENTION_FACTOR = 2.0
_GPU_CONTENTION_NS = 3e5
_THREAD_WAKEUP_NS = 5e5  # an idle machine: 0.15 ms, over the threads of one window


class Batch(NamedTuple):
    """One window, as the judge reports it: nanoseconds for all its calls; seconds at its ends."""

    judge_ns: float
    runner_ns: float
    calls: int
    start: float
    end: float
    copy_ns: float = 0.0
    """For copies of what was returned, which is no work of the kernel; by the runner's clock."""
    runqueue_wait_ns: float = 0.0
    idle_read_ns: float = 0.0
    """For reading a known amount on the GPU just before, while all processes stood still."""
    reported_copy_ns: float = 0.0
    """The same by the candidate's own account, where ``copy_ns`` is what the rival took."""


Pair = tuple[Batch, Batch]
"""Candidate and rival, one after the other."""


def is_cpu_contended(batch: Batch) -> bool:
    """Say whether its threads had to wait for cores that others used."""
    return batch.runqueue_wait_ns > _THREAD_WAKEUP_NS + _CPU_CONTENTION_SHARE * batch.judge_ns


def is_gpu_contended(batch: Batch, baseline_read_ns: float) -> bool:
    """Say whether the GPU had other work when nobody should have had any.

    On an H100 it took 0.06 ms before, and 0.15 ms at most before 136 windows of an honest kernel.

    Args:
        batch: The one that followed.
        baseline_read_ns: For the same reading before the candidate was loaded; 0 where that is not
            known.
    """
    return (
        baseline_read_ns > 0
        and batch.idle_read_ns > _GPU_CONTENTION_FACTOR * baseline_read_ns + _GPU_CONTENTION_NS
    )


class FilteredPairs(NamedTuple):
    """Pairs, and those in which nothing slowed one side down: heat, or somebody else."""

    pairs: Sequence[Pair]
    unthrottled: Sequence[Pair]
    clean: Sequence[Pair]
    gpu_contended_count: int = 0
    """Cool pairs in which the GPU had other work."""

    @property
    def is_throttled(self) -> bool:
        """Whether too few are cool."""
        return len(self.unthrottled) < _MIN_USABLE_PAIRS

    @property
    def is_contended(self) -> bool:
        """Whether others used the machine most of the time: what is left is no fair sample."""
        return (
            len(self.clean) < max(_MIN_USABLE_PAIRS, len(self.unthrottled) / 2)
            and not self.is_throttled
        )

    @property
    def selected_pairs(self) -> Sequence[Pair]:
        """The pairs to go by; where they decide nothing, all that there are."""
        return (
            self.pairs
            if self.is_throttled
            else self.unthrottled
            if self.is_contended
            else self.clean
        )


def filter_pairs(
    pairs: Sequence[Pair], unthrottled: Sequence[Pair], baseline_read_ns: float = 0.0
) -> FilteredPairs:
    """Tell the calm pairs among the cool ones; ``baseline_read_ns`` as in ``shared``."""
    alone = [
        pair
        for pair in unthrottled
        if not any(is_gpu_contended(one, baseline_read_ns) for one in pair)
    ]
    calm = [pair for pair in alone if not any(map(is_cpu_contended, pair))]
    return FilteredPairs(pairs, unthrottled, calm, len(unthrottled) - len(alone))


def overhead_ns(pairs: Sequence[Pair]) -> float:
    """Return the nanoseconds of the way there and back; what is above it is a busy machine."""
    gaps = sorted(rival.judge_ns - rival.runner_ns - rival.copy_ns for _, rival in pairs)
    return gaps[len(gaps) // 4]


def _net_judge_ns(batch: Batch, overhead: float) -> float:
    """Return the time of a window's calls; never less than a tenth of what the clock saw."""
    return max(batch.judge_ns - overhead - batch.copy_ns, 0.1 * batch.judge_ns)


def apply_rival_copy_cost(pairs: Sequence[Pair], default_copy_ns: float) -> list[Pair]:
    """Let the rival, which returns as much, say what the candidate's copies took.

    Args:
        pairs: As measured.
        default_copy_ns: For the copies of one call, where the rival returns nothing.
    """
    found = []
    for one, rival in pairs:
        each = rival.copy_ns / rival.calls or default_copy_ns
        told = one._replace(reported_copy_ns=one.copy_ns, copy_ns=each * one.calls)
        found.append((told, rival))
    return found


def _overhead_uncertainty(batch: Batch, overhead: float) -> float:
    return max(_OVERHEAD_SLACK_NS, _OVERHEAD_SLACK_SHARE * overhead) / batch.judge_ns


def _timing_uncertainty(batches: Sequence[Batch], overhead: float) -> float:
    """Return the share of a window that the judge's clock cannot tell from its calls."""
    return statistics.median(
        _overhead_uncertainty(w, overhead) + _COPY_SLACK_SHARE * w.copy_ns / w.judge_ns
        for w in batches
    )


def describe_clock_disagreement(batches: Sequence[Batch], overhead: float) -> str | None:
    """Say that the candidate's process tells another time than the judge's clock.

    A busy machine makes the judge see more: as much as threads stood in line for a core, and in
    many windows; a clock that lies, in all of them. What the candidate says of its copies is
    believed here: it is not what its speedup is made of.
    """
    shares = sorted(
        (w.judge_ns - overhead - w.runner_ns - w.reported_copy_ns - w.runqueue_wait_ns) / w.judge_ns
        for w in batches
    )
    least = shares[len(shares) // 10]
    unknown = statistics.median(_overhead_uncertainty(w, overhead) for w in batches)
    if least <= _MAX_CLOCK_DISAGREEMENT + unknown:
        return None
    return (
        f"by its own process's clock it took {1 - least:.0%} of what the judge's clock saw; "
        f"work went on outside the stream, or the clock was changed"
    )


def describe_precomputation(
    single_call_batches: Sequence[Batch], batches: Sequence[Batch], overhead: float
) -> str | None:
    """Say that a call by itself takes nearly as long as many in a row.

    Then it does the work of calls that were not made yet, which nobody who calls it once gains by.

    Args:
        single_call_batches: Windows of one call, of which nobody knew before that they would be.
        batches: The candidate's others.
        overhead: See ``way``.
    """
    calls = statistics.median(window.calls for window in batches)
    if calls < _MIN_BATCH_CALLS or not single_call_batches:
        return None
    seen = sorted(
        w.judge_ns - overhead - w.reported_copy_ns - w.runqueue_wait_ns for w in single_call_batches
    )
    one = seen[len(seen) // 4] - max(_OVERHEAD_SLACK_NS, _OVERHEAD_SLACK_SHARE * overhead)
    many = statistics.median(_net_judge_ns(w, overhead) for w in batches)
    if one <= _MAX_SINGLE_CALL_SHARE * many:
        return None
    return (
        f"a call by itself took {one / 1e3:.3g} us, {calls:.0f} in a row {many / 1e3:.3g} us: it "
        f"does the work of calls that are yet to come"
    )


def compute_speedups(
    pairs: Sequence[Pair], overhead: float
) -> tuple[Speedup, Speedup, list[tuple[float, float]]]:
    """Return the speedup by the judge's clock, the one to report, and the times it rests on.

    The times are nanoseconds of a call of candidate and rival, pair by pair.

    The runners' own clocks are finer: no way there and back is in them. They may sharpen what the
    judge saw, inside its interval, and never make a gain larger; outside it only the judge is
    believed. Where they do, of the judge's speedup only the point counts: it has to lie on the
    same side. The judge's interval has room for what its clock cannot know, that the way differs
    from process to process.
    """
    sides = list(zip(*pairs, strict=True))
    outer = [[_net_judge_ns(one, overhead) / one.calls for one in side] for side in sides]
    inner = [[one.runner_ns / one.calls for one in side] for side in sides]
    room = 1 + max(_timing_uncertainty(side, overhead) for side in sides)
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


def combine_verdicts(
    runner_verdict: Literal["faster", "slower", "inconclusive"],
    judge_verdict: Literal["faster", "slower", "inconclusive"],
) -> Literal["faster", "slower", "inconclusive"]:
    """Return what both clocks say; what the judge did not see did not happen."""
    return runner_verdict if runner_verdict == judge_verdict else "inconclusive"
