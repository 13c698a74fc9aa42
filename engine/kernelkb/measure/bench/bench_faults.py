"""Finds in a bench's times that a candidate did not do its work in its calls."""

from __future__ import annotations

from kernelkb.measure.bench.single_calls import (
    SingleCalls,
    describe_missing_gain,
    describe_precomputation,
    summarize_single_calls,
)
from kernelkb.measure.bench.timing_analysis import (
    FilteredPairs,
    apply_rival_copy_cost,
    describe_clock_disagreement,
)
from kernelkb.measure.worker.shared.messages.judge_jobs import BenchTimes

_MAX_IDLE_CPU_NS = 2e6
"""CPU time of a process in 50 ms in which it has nothing to do."""


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
