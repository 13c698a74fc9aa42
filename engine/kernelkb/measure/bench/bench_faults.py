"""Finds in a bench's times that a candidate did not do its work in its calls."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kernelkb.measure.bench.statistics import (
    FilteredPairs,
    Pair,
    apply_rival_copy_cost,
    describe_clock_disagreement,
    is_cpu_contended,
    net_judge_ns,
    overhead_slack_ns,
)
from kernelkb.measure.worker.shared.messages.jobs import Batch, BenchTimes

_MAX_IDLE_CPU_NS = 2e6
"""CPU time of a process in 50 ms in which it has nothing to do."""
_MAX_EXTRA_SHARE = 0.5
"""By how much of its own time in a batch a call alone may take longer than the rival's does."""
_MIN_GAIN_SHARE = 0.5
"""Share of the time gained in a batch that a call alone must gain too."""
_LARGE_GAIN_SHARE = 0.25
"""Of the rival's time: a gain that is large has to show in calls alone, too."""
_TRIAL_QUANTILE = 4
"""Three quarters of the trials have to show it."""
_OWN_SLACK_NS = 3e3
"""Of the runners' own clocks, to leave a gain undecided; to accuse a candidate it takes more."""
_COLD_CALL_SLACK_NS = 3e4
"""That cold code and a core that slept may cost a call alone, and the rival's less."""
_THREAD_WAKEUP_NS = 1e5
"""More of it where the candidate's threads have to wake up, which sleep between calls alone."""
_MANY_CORES = 1.2
_MIN_QUIET_TRIALS = 5


def _summarize_single_calls(
    bench_times: BenchTimes, filtered: FilteredPairs, overhead: float
) -> SingleCalls | None:
    """Return the times of calls alone and in batches; None where every batch was one call."""
    batches = bench_times["single_call_batches"], bench_times["rival_single_call_batches"]
    single_pairs = list(zip(*batches, strict=True))
    if bench_times["copy_ns"] is not None:
        single_pairs = apply_rival_copy_cost(single_pairs, bench_times["copy_ns"])
    return summarize_single_calls(
        single_pairs,
        filtered.selected_pairs,
        overhead,
        bench_times["busy_cores"],
        is_contended=filtered.is_contended,
    )


def find_cheat(
    bench_times: BenchTimes, filtered: FilteredPairs, overhead: float
) -> tuple[str | None, str | None]:
    """Report a candidate that works outside of its calls, or in calls for which it is not timed.

    Args:
        bench_times: All times of the bench.
        filtered: Its pairs.
        overhead: Of the harness's round trip, nanoseconds; see ``overhead_ns``.

    Returns:
        What makes the bench invalid, and what leaves a gain undecided; None where nothing does.
    """
    single_calls = _summarize_single_calls(bench_times, filtered, overhead)
    candidate_batches = [candidate for candidate, _ in filtered.selected_pairs]
    fault = (
        _describe_busy_threads(bench_times)
        or describe_clock_disagreement(candidate_batches, overhead)
        or describe_precomputation(single_calls)
    )
    return fault, describe_missing_gain(single_calls)


def _describe_busy_threads(bench_times: BenchTimes) -> str | None:
    count, used_ns = bench_times["new_thread_count"], bench_times["idle_cpu_ns"]
    if not count or used_ns <= _MAX_IDLE_CPU_NS:
        return None
    return (
        f"it started {count} threads while it was timed, and its process used "
        f"{used_ns / 1e6:.2g} ms of CPU time while no call was under way"
    )


def describe_leftover_threads(bench_times: BenchTimes) -> str | None:
    """Warn of threads that appeared during the timing, as a pool's do that grows when needed."""
    count = bench_times["new_thread_count"]
    return f"it started {count} threads while it was timed, and left them" if count else None


class SingleCalls(NamedTuple):
    """Typical nanoseconds of a call of the candidate and of its rival."""

    alone_ns: float
    in_batch_ns: float
    rival_alone_ns: float
    rival_in_batch_ns: float
    extra_ns: float
    """How much longer alone than in a batch, less the same of the rival, which is at least 0; in
    three quarters of the trials it was more."""
    slack_ns: float
    """By how much the judge's clock may be wrong about that."""
    own_extra_ns: float
    """The same by the clocks of the runners; minus infinity on a GPU."""
    wakeup_ns: float
    """Time that several threads may need to wake up before a call alone; 0 for one thread. A
    candidate is not accused for it."""
    is_disturbed: bool
    """Whether other programs used the cores in too many of the trials."""

    @property
    def works_ahead(self) -> bool:
        """Whether a call takes so much less time in a batch that it does work of others.

        Both that a call alone is long and that the rival's calls do not explain it. One that is no
        faster than its rival in a batch either has nothing from it, and is not accused.
        """
        is_longer = self.alone_ns > (1 + _MAX_EXTRA_SHARE) * self.in_batch_ns
        extra_ns = _MAX_EXTRA_SHARE * self.in_batch_ns
        is_unexplained = self._exceeds(extra_ns, _COLD_CALL_SLACK_NS + self.wakeup_ns)
        return is_longer and is_unexplained and self.gained_ns > 0

    @property
    def lacks_gain(self) -> bool:
        """Whether a call alone is not faster than the rival's, where one of a batch is.

        A large gain has to show in calls alone, however much the round trip may differ.
        """
        share_ns = _MIN_GAIN_SHARE * self.gained_ns
        rival_ns = max(self.rival_alone_ns, self.rival_in_batch_ns)
        if self._is_gain_large and rival_ns - self.alone_ns < share_ns:
            return True
        least_ns = min(share_ns, _MAX_EXTRA_SHARE * self.in_batch_ns)
        return self.gained_ns > 0 and self._exceeds(least_ns, _OWN_SLACK_NS)

    @property
    def _is_gain_large(self) -> bool:
        return self.gained_ns > _LARGE_GAIN_SHARE * self.rival_in_batch_ns

    def _exceeds(self, ns: float, own_slack_ns: float) -> bool:
        """Return whether the judge's clock shows more, or the candidate's own, which is finer."""
        slack_ns = max(own_slack_ns, self.slack_ns + self.wakeup_ns)
        return self.own_extra_ns > ns + own_slack_ns or self.extra_ns > ns + slack_ns

    @property
    def gained_ns(self) -> float:
        """How much shorter a call of the candidate's batches is than one of the rival's."""
        return self.rival_in_batch_ns - self.in_batch_ns


def summarize_single_calls(
    single_pairs: Sequence[Pair],
    pairs: Sequence[Pair],
    overhead: float,
    busy_cores: float | None,
    *,
    is_contended: bool,
) -> SingleCalls | None:
    """Summarize calls alone and in batches; None where every batch was one call.

    Args:
        single_pairs: Batches of one call, of both, at times that neither can foresee.
        pairs: The other batches.
        overhead: Of the harness's round trip, nanoseconds; see ``overhead_ns``.
        busy_cores: That the candidate keeps busy; None on a GPU.
        is_contended: Whether other programs used the cores in most batches.
    """
    if not single_pairs:
        return None
    quiet = [pair for pair in single_pairs if not any(map(is_cpu_contended, pair))]
    is_disturbed = is_contended or len(quiet) < _MIN_QUIET_TRIALS
    own, rival = _take_medians(pairs, lambda batch: net_judge_ns(batch, overhead))
    trials = single_pairs if is_disturbed else quiet
    alone = [(_alone_ns(candidate), _alone_ns(other)) for candidate, other in trials]
    extras = [mine - own - max(0.0, other - rival) for mine, other in alone]
    own_extras = _list_own_extras(trials, pairs) if busy_cores is not None else [-math.inf]
    wakeup_ns = _THREAD_WAKEUP_NS if (busy_cores or 0.0) > _MANY_CORES else 0.0
    round_trip_ns = statistics.median(_alone_ns(other) - other.runner_ns for _, other in trials)
    return SingleCalls(
        alone_ns=statistics.median(mine for mine, _ in alone) - round_trip_ns,
        in_batch_ns=own,
        rival_alone_ns=statistics.median(other for _, other in alone) - round_trip_ns,
        rival_in_batch_ns=rival,
        extra_ns=_take_low(extras),
        slack_ns=overhead_slack_ns(round_trip_ns),
        own_extra_ns=_take_low(own_extras),
        wakeup_ns=wakeup_ns,
        is_disturbed=is_disturbed,
    )


def _take_medians(
    pairs: Sequence[Pair], measure_ns: Callable[[Batch], float]
) -> tuple[float, float]:
    """Return the median time of a call of a batch, of the candidate and of its rival."""
    own, rival = (
        statistics.median(measure_ns(pair[side]) / pair[side].calls for pair in pairs)
        for side in (0, 1)
    )
    return own, rival


def _alone_ns(batch: Batch) -> float:
    """Return the time of one call, with the round trip."""
    return batch.judge_ns - batch.copy_ns


def _list_own_extras(trials: Sequence[Pair], pairs: Sequence[Pair]) -> list[float]:
    """Return how much longer a call alone took by the runners' clocks, less the same of the rival.

    No round trip is in them, which differs by some 40 us between a process with torch and one
    without. A candidate could forge its own, within what the judge's clock cannot tell.
    """
    own, rival = _take_medians(pairs, lambda batch: batch.runner_ns)
    return [mine.runner_ns - own - max(0.0, other.runner_ns - rival) for mine, other in trials]


def _take_low(extras: Sequence[float]) -> float:
    return sorted(extras)[len(extras) // _TRIAL_QUANTILE]


def describe_precomputation(calls: SingleCalls | None) -> str | None:
    """Report that calls are so much cheaper in a batch that one does the work of others."""
    if calls is None or calls.is_disturbed or not calls.works_ahead:
        return None
    return (
        f"a call by itself took {_format_us(calls.alone_ns)}, one of a batch "
        f"{_format_us(calls.in_batch_ns)}, and the baseline's {_format_us(calls.rival_alone_ns)} "
        f"and {_format_us(calls.rival_in_batch_ns)}: it does the work of calls that are yet to come"
    )


def describe_missing_gain(calls: SingleCalls | None) -> str | None:
    """Warn that the candidate is faster than its rival in a batch of calls only, or may be."""
    if calls is None:
        return None
    if calls.is_disturbed and calls.gained_ns > 0:
        return (
            "threads waited for cores, so too few calls by themselves show whether it is faster "
            "only when many calls follow one another"
        )
    if not calls.lacks_gain:
        return None
    return (
        f"it is faster only when many calls follow one another: a call by itself took "
        f"{_format_us(calls.alone_ns)}, the baseline's {_format_us(calls.rival_alone_ns)}; "
        f"no gain is stated for that"
    )


def _format_us(ns: float) -> str:
    return f"{max(0.0, ns) / 1e3:.3g} us"
