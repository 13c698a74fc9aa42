"""Speedups with their intervals from paired batches, and the clocks of judge and runners compared.

The time of a batch is what the judge's clock measured, less the harness's round trip: what that
clock measured beyond the device's own events in the rival's batches.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from math import comb, exp, hypot, log
from typing import NamedTuple

from kernelkb.measure.worker.shared.messages.jobs import Batch
from kernelkb.model.records.measurement import TimedVerdict

_RESAMPLES = 2000
_MIN_EFFECT = 0.01
"""Relative difference of 1 %: a few dozen pairs cannot resolve less."""

_MAX_CLOCK_DISAGREEMENT = 0.10
"""Share of a batch that the candidate's clock may leave out."""
_CLOCK_QUANTILE = 10
"""The disagreement in the lowest tenth of batches counts: a wrong clock shows in all of them."""
OVERHEAD_SLACK_NS = 1e4
"""Difference of the round trip between two processes: 6 us were seen between two pairs of processes
on an H100, over 200 comparisons of a kernel with itself."""
_OVERHEAD_SLACK_SHARE = 0.5
"""The same as a share of the round trip, where stopping a process's threads is most of it."""
_COPY_SLACK_SHARE = 0.5
"""Difference between the copies of rival and candidate, as a share: 0.3 was seen, where one of two
processes had its pages mapped and the other had not."""
_MIN_NET_SHARE = 0.1
"""The overhead is at most nine tenths of a batch."""
_CPU_CONTENTION_SHARE = 0.25
"""Run-queue wait of all threads, as a share of the batch, above which others used the cores."""
_THREAD_WAKEUP_NS = 5e5
"""Run-queue wait of an undisturbed batch; on an idle machine 0.15 ms over all its threads."""
MUCH_WAITING = 0.05
"""Share of the elapsed time that others had the core, as a median, from which a bench is busy."""
_FEW_OWN_WAITS = 0.1
"""Share of pairs in which the candidate may have waited, without that a bench is busy: the median
hardly moves."""
_MUCH_SPREAD = 0.05
"""Between the quartiles of the paired ratios, relative: programs that share caches and the halves
of a core disturb without that a thread waits."""
_BUSY_MISS_CHANCE = 5e-4
"""On each side of the interval of a busy bench, so that 100 comparisons of equals are called equal:
pairs that waited vary too much for the least effect to see to that."""
_WAIT_UNCERTAINTY = 0.05
"""Of the share that others had the core: caches are cold after it."""
_CONTENTION_UNCERTAINTY = 0.1
"""Of a time in which threads waited and may have waited for one another."""
_GPU_CONTENTION_FACTOR = 2.0
_GPU_CONTENTION_NS = 3e5
"""A read of the flush buffer that takes 2 times the baseline and 0.3 ms longer: the GPU had other
work. On an H100 the baseline is 0.06 ms, and 0.15 ms was the most before 136 batches of a correct
kernel."""
_MIN_USABLE_PAIRS = 5

Pair = tuple[Batch, Batch]
"""Batches of candidate and rival, timed one after the other."""


class Speedup(NamedTuple):
    """Baseline time over candidate time: above 1 the candidate is faster."""

    point: float
    """Median of the paired ratios."""
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end."""


def paired_speedup(candidate: Sequence[float], baseline: Sequence[float]) -> Speedup:
    """Return the median of the paired ratios with its 95 % percentile bootstrap interval.

    Deterministic: the same times give the same interval.

    Args:
        candidate: Times in any unit, above zero; entry i was timed just before or after entry i of
            ``baseline``.
        baseline: As many times, above zero.
    """
    log_ratios = [log(b / c) for c, b in zip(candidate, baseline, strict=True)]
    resample = random.Random(0).choices
    count = len(log_ratios)
    medians = sorted(statistics.median(resample(log_ratios, k=count)) for _ in range(_RESAMPLES))
    low, high = medians[int(0.025 * _RESAMPLES)], medians[int(0.975 * _RESAMPLES) - 1]
    return Speedup(exp(statistics.median(log_ratios)), exp(low), exp(high))


def safe_speedup(candidate: Sequence[float], baseline: Sequence[float]) -> Speedup:
    """Return the median of the paired ratios with an interval that 1 of 1000 equals leave.

    Of order statistics: it holds for any distribution of the ratios. Of fewer than 11 pairs it is
    from the least to the greatest ratio.

    Args:
        candidate: As of ``paired_speedup``.
        baseline: The same.
    """
    ratios = sorted(b / c for c, b in zip(candidate, baseline, strict=True))
    count, rank, chance = len(ratios), 0, 0.5 ** len(ratios)
    while rank + 1 < count / 2 and chance + comb(count, rank + 1) * 0.5**count <= _BUSY_MISS_CHANCE:
        rank += 1
        chance += comb(count, rank) * 0.5**count
    point = exp(statistics.median(map(log, ratios)))
    return Speedup(point, ratios[rank], ratios[-1 - rank])


def combine_rounds(rounds: Sequence[Speedup]) -> Speedup:
    """Return the speedup of several benches of the same two programs.

    That is the geometric mean; so is the interval of theirs, which is widened until it holds the
    point of each bench: two processes of one program differ by more than the pairs within them.
    """
    logs = [tuple(map(log, one)) for one in rounds]
    point, low, high = (statistics.fmean(column) for column in zip(*logs, strict=True))
    points = [row[0] for row in logs]
    return Speedup(exp(point), exp(min(low, *points)), exp(max(high, *points)))


def multiply_speedups(speedups: Sequence[Speedup]) -> Speedup:
    """Return the product of independent speedups; their errors add up in squares."""
    logs = [tuple(map(log, one)) for one in speedups]
    point = sum(row[0] for row in logs)
    below = hypot(*(row[0] - row[1] for row in logs))
    above = hypot(*(row[2] - row[0] for row in logs))
    return Speedup(exp(point), exp(point - below), exp(point + above))


def decide_verdict(speedup: Speedup) -> TimedVerdict:
    """Return faster or slower if the whole interval is more than 1 % on that side of 1."""
    if speedup.low > 1 + _MIN_EFFECT:
        return "faster"
    if speedup.high < 1 - _MIN_EFFECT:
        return "slower"
    return "inconclusive"


class FilteredPairs(NamedTuple):
    """Pairs of a bench, and those that neither heat nor other programs disturbed."""

    pairs: Sequence[Pair]
    unthrottled: Sequence[Pair]
    """Those in which the GPU's clock was not lowered."""
    clean: Sequence[Pair]
    """Those of ``unthrottled`` in which no other program used GPU or cores."""
    gpu_contended_count: int = 0
    """Pairs of ``unthrottled`` in which the GPU had other work."""
    usable: Sequence[Pair] = ()
    """Those in which no thread of the baseline waited for a core, nor had the GPU other work. What
    the candidate waits does not count, since it could have its slow calls left out so."""

    @property
    def is_throttled(self) -> bool:
        """Whether fewer than 5 pairs are unthrottled."""
        return len(self.unthrottled) < _MIN_USABLE_PAIRS

    @property
    def is_contended(self) -> bool:
        """Whether less than half of the unthrottled pairs, or fewer than 5, are clean."""
        return (
            len(self.clean) < max(_MIN_USABLE_PAIRS, len(self.unthrottled) / 2)
            and not self.is_throttled
        )

    @property
    def selected_pairs(self) -> Sequence[Pair]:
        """The pairs to compute times from: the usable ones, or more where those are too few."""
        if self.is_throttled:
            return self.pairs
        return self.unthrottled if self.is_contended else self.usable

    @property
    def waited_share(self) -> float:
        """Share of the elapsed time that others had the core, and that was taken off: a median."""
        return find_waited_share(self.selected_pairs)


def is_cpu_contended(batch: Batch) -> bool:
    """Return whether its threads had to wait for cores that other programs used."""
    return batch.runqueue_wait_ns > _THREAD_WAKEUP_NS + _CPU_CONTENTION_SHARE * batch.judge_ns


def is_gpu_contended(batch: Batch, baseline_read_ns: float) -> bool:
    """Return whether the GPU had other work just before a batch, with all runners stopped.

    Args:
        batch: Holds the time of the judge's read before it.
        baseline_read_ns: Of the same read before the candidate was loaded; 0: not known.
    """
    limit_ns = _GPU_CONTENTION_FACTOR * baseline_read_ns + _GPU_CONTENTION_NS
    return baseline_read_ns > 0 and batch.idle_read_ns > limit_ns


def filter_pairs(
    pairs: Sequence[Pair], unthrottled: Sequence[Pair], baseline_read_ns: float = 0.0
) -> FilteredPairs:
    """Find the clean pairs among the unthrottled ones.

    Args:
        pairs: All of them.
        unthrottled: Those in which the GPU's clock was not lowered.
        baseline_read_ns: See ``is_gpu_contended``.
    """
    idle_gpu = [
        pair
        for pair in unthrottled
        if not any(is_gpu_contended(batch, baseline_read_ns) for batch in pair)
    ]
    usable = [pair for pair in idle_gpu if not is_cpu_contended(pair[1])]
    clean = [pair for pair in usable if not is_cpu_contended(pair[0])]
    return FilteredPairs(pairs, unthrottled, clean, len(unthrottled) - len(idle_gpu), usable)


def find_waited_share(pairs: Sequence[Pair]) -> float:
    """Return the share of the elapsed time that others had the core: the median of all batches."""
    return statistics.median(
        batch.foreign_wait_ns / (batch.foreign_wait_ns + batch.judge_ns)
        for pair in pairs
        for batch in pair
    )


def overhead_ns(pairs: Sequence[Pair]) -> float:
    """Return the harness's round-trip overhead in ns: first quartile over the rival's batches."""
    overheads = sorted(rival.judge_ns - rival.runner_ns - rival.copy_ns for _, rival in pairs)
    return overheads[len(overheads) // 4]


def apply_rival_copy_cost(pairs: Sequence[Pair], default_copy_ns: float) -> list[Pair]:
    """Replace the candidate's ``copy_ns`` by the rival's, if that is shorter.

    So a candidate cannot have more taken off than the rival, and one that reports nothing, since it
    writes its outputs where they belong, has nothing taken off.

    Args:
        pairs: As measured.
        default_copy_ns: Nanoseconds for one call, where the rival returns nothing.
    """
    own_ns = statistics.median(own.copy_ns / own.calls for own, _ in pairs) if pairs else 0.0
    adjusted = []
    for candidate, rival in pairs:
        call_ns = min(own_ns, rival.copy_ns / rival.calls or default_copy_ns)
        batch = candidate._replace(
            reported_copy_ns=candidate.copy_ns, copy_ns=call_ns * candidate.calls
        )
        adjusted.append((batch, rival))
    return adjusted


def net_judge_ns(batch: Batch, overhead: float) -> float:
    """Return the time of a batch's calls by the judge's clock, at least a tenth of the batch."""
    return max(batch.judge_ns - overhead - batch.copy_ns, _MIN_NET_SHARE * batch.judge_ns)


def overhead_slack_ns(overhead: float) -> float:
    """Return by how much the round trip may differ between two processes, nanoseconds."""
    return max(OVERHEAD_SLACK_NS, _OVERHEAD_SLACK_SHARE * overhead)


def _timing_uncertainty(batches: Sequence[Batch], overhead: float) -> float:
    """Return the median share of a batch that is uncertain by the judge's clock."""
    slack_ns = overhead_slack_ns(overhead)
    return statistics.median(
        (slack_ns + _COPY_SLACK_SHARE * batch.copy_ns) / batch.judge_ns for batch in batches
    )


def describe_clock_disagreement(batches: Sequence[Batch], overhead: float) -> str | None:
    """Report that the candidate's clock leaves out time that the judge's clock measured.

    A busy machine adds run-queue wait, which is subtracted, to many batches; a wrong clock shows in
    all of them. The candidate's report of its copies is trusted here: no speedup depends on it.

    Args:
        batches: The candidate's.
        overhead: See ``overhead_ns``.
    """
    missing_shares = sorted(
        (b.judge_ns - overhead - b.runner_ns - b.reported_copy_ns - b.runqueue_wait_ns) / b.judge_ns
        for b in batches
    )
    missing = missing_shares[len(missing_shares) // _CLOCK_QUANTILE]
    uncertainty = statistics.median(overhead_slack_ns(overhead) / b.judge_ns for b in batches)
    if missing <= _MAX_CLOCK_DISAGREEMENT + uncertainty:
        return None
    return (
        f"by its own process's clock it took {1 - missing:.0%} of what the judge's clock measured; "
        f"work went on outside the stream, or the clock was changed"
    )


def compute_speedups(
    pairs: Sequence[Pair], overhead: float, is_contended: bool = False, *, on_cpu: bool = True
) -> tuple[Speedup, Speedup, list[tuple[float, float]]]:
    """Return the speedup by the judge's clock, the one to report, and the times behind it.

    The runners' own clocks are more precise: no round trip is in them. They may narrow what the
    judge measured, within its interval, and never enlarge a gain; outside of it only the judge is
    trusted. Where they narrow it, the judge's speedup is its point alone, for the verdict's sign.
    The judge's interval is widened by what its clock cannot measure: that the round trip differs
    between processes. On a busy machine it counts alone: see ``safe_speedup``.

    Args:
        pairs: Of one bench.
        overhead: See ``overhead_ns``.
        is_contended: Whether threads waited that cannot be told from the candidate's own doing.
        on_cpu: Whether the cores did the work: programs on them do not disturb a GPU's own clock.

    Returns:
        Both speedups, and nanoseconds of one call of candidate and rival, pair by pair.
    """
    sides = [candidate for candidate, _ in pairs], [rival for _, rival in pairs]
    judge_times = [[net_judge_ns(b, overhead) / b.calls for b in side] for side in sides]
    runner_times = [[b.runner_ns / b.calls for b in side] for side in sides]
    judge_pairs = list(zip(*judge_times, strict=True))
    widening = 1 + max(_timing_uncertainty(side, overhead) for side in sides)
    if on_cpu and (is_contended or _is_busy(pairs, judge_times)):
        busy = _busy_speedup(pairs, judge_times, widening, is_contended=is_contended)
        return busy, busy, judge_pairs
    point, low, high = paired_speedup(*judge_times)
    judge = Speedup(point, low / widening, high * widening)
    if min(map(min, runner_times)) <= 0:
        return judge, judge, judge_pairs
    own = paired_speedup(*runner_times)
    if not judge.low <= own.point <= judge.high:
        return judge, judge, judge_pairs
    excess = own.point / max(1.0, point)
    if excess > 1.0:
        own = Speedup(*(value / excess for value in own))
        runner_times[0] = [value * excess for value in runner_times[0]]
    return Speedup(point, point, point), own, list(zip(*runner_times, strict=True))


def _is_busy(pairs: Sequence[Pair], judge_times: Sequence[Sequence[float]]) -> bool:
    """Return whether others had the cores of many pairs, may have had, or disturbed them."""
    own_count = sum(is_cpu_contended(candidate) for candidate, _ in pairs)
    waited_much = find_waited_share(pairs) > MUCH_WAITING
    may_have_waited = own_count > _FEW_OWN_WAITS * len(pairs)
    return waited_much or may_have_waited or _spread(*judge_times) > _MUCH_SPREAD


def _busy_speedup(
    pairs: Sequence[Pair],
    judge_times: Sequence[Sequence[float]],
    widening: float,
    *,
    is_contended: bool,
) -> Speedup:
    """Return the speedup on a busy machine, whose interval holds what cannot be known there.

    What the candidate waited may have been others' doing, so its upper end is without that.
    """
    candidate, rival = judge_times
    point, low, high = safe_speedup(candidate, rival)
    if is_contended:
        widening *= 1 + _CONTENTION_UNCERTAINTY
    else:
        widening *= 1 + _WAIT_UNCERTAINTY * find_waited_share(pairs)
        least_times = [
            max(ns - own.runqueue_wait_ns / own.calls, _MIN_NET_SHARE * ns)
            for ns, (own, _) in zip(candidate, pairs, strict=True)
        ]
        high = max(high, safe_speedup(least_times, rival).high)
    return Speedup(point, low / widening, high * widening)


def _spread(candidate: Sequence[float], baseline: Sequence[float]) -> float:
    """Return by how much the upper quartile of the paired ratios exceeds the lower, relative."""
    ratios = sorted(b / c for c, b in zip(candidate, baseline, strict=True))
    quarter = len(ratios) // 4
    return ratios[-1 - quarter] / ratios[quarter] - 1


def combine_verdicts(runner_verdict: TimedVerdict, judge_verdict: TimedVerdict) -> TimedVerdict:
    """Return the verdict that both clocks give; inconclusive where they differ."""
    return runner_verdict if runner_verdict == judge_verdict else "inconclusive"
