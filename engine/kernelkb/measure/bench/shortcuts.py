"""Says what a bench left out because its answer was plain. Pure: runs nothing."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.measure.worker.shared.messages.judge_jobs import BenchTimes
from kernelkb.model.base import Target


def describe_shortcuts(
    bench_times: BenchTimes, speedup: float | None, target: Target
) -> Iterator[str]:
    """Yield a sentence each on rivals that were left out and on timing that ended early.

    Args:
        bench_times: Of the bench.
        speedup: Over its baseline.
        target: ``cpu`` or ``cuda``; only a GPU's energy is measured.
    """
    rival = bench_times["rival_name"]
    if bench_times["left_out"] and speedup:
        yield (
            f"{', '.join(bench_times['left_out'])} left out: it takes {1 / speedup:.3g} times as "
            f"long as {rival}, so it is slower than the fastest baseline by at least that"
        )
    if bench_times["is_plainly_slower"]:
        energy = "; energy was not measured" if target == "cuda" else ""
        yield (
            f"timing ended after {len(bench_times['candidate_batches'])} pairs, since it took more "
            f"than twice as long as {rival} in nearly all of them{energy}"
        )
