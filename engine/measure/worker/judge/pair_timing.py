"""Times pairs of batches, candidate and rival in alternating order, until the budget is used."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from kernelkb.measure.worker.judge.runner_timer import RunnerTimer
from kernelkb.measure.worker.judge.sampling import CHECK_EVERY_PAIRS, OutputSampler
from kernelkb.measure.worker.shared.messages.judge_jobs import Batch, BenchJob, PairTimes

_WARM_UP_BATCHES = 2


class IncorrectCallError(Exception):
    """A timed call of the candidate was incorrect."""


def time_pairs(
    job: BenchJob,
    candidate: RunnerTimer,
    rival: RunnerTimer,
    report_progress: Callable[[str], None],
) -> PairTimes:
    """Time pairs of batches, and single calls of the candidate in between.

    Args:
        job: Limits of time and pairs.
        candidate: Its batches are planned; sampled outputs are compared with the reference.
        rival: Its batches are planned.
        report_progress: Called with the name of the runner that runs next.

    Raises:
        IncorrectCallError: A sampled output of the candidate is incorrect.
        RunnerDied: A runner ended.
        RunnerError: A runner reported an error.
    """
    for timer in (candidate, rival):
        for _ in range(_WARM_UP_BATCHES):
            timer.time_batch()
    warm_call_ns = candidate.warm_call_ns()
    rival.warm_call_ns()  # not used: both runners are warmed equally
    batches = _PairedBatches([], [], [])
    checked_count = _time_until_budget(job, candidate, rival, report_progress, batches)
    return {
        "candidate_batches": batches.candidate,
        "rival_batches": batches.rival,
        "single_call_batches": batches.single_call,
        "warm_call_ns": warm_call_ns,
        "busy_cores": candidate.busy_cores() if job["target"] == "cpu" else None,
        "checked_count": checked_count,
        "new_thread_count": candidate.new_thread_count(),
    }


class _PairedBatches(NamedTuple):
    candidate: list[Batch]
    rival: list[Batch]
    single_call: list[Batch]


def _time_until_budget(
    job: BenchJob,
    candidate: RunnerTimer,
    rival: RunnerTimer,
    report_progress: Callable[[str], None],
    batches: _PairedBatches,
) -> int:
    """Append batches until time or pairs are used up; return how many calls were compared."""
    sampler = OutputSampler(candidate, job)
    start = time.monotonic()
    end = start + job["budget_s"]

    def time_candidate(sample_count: int, *, single_call: bool = False) -> None:
        report_progress(candidate.name)
        batch, outputs = candidate.time_batch(sample_count, single_call=single_call)
        (batches.single_call if single_call else batches.candidate).append(batch)
        fault = sampler.check_batch(outputs)
        if fault:
            raise IncorrectCallError(fault)

    for pair in range(job["max_pairs"]):
        if time.monotonic() - sampler.check_s > end and pair >= job["min_pairs"]:
            break
        for timer in ((candidate, rival), (rival, candidate))[pair % 2]:
            if timer is candidate:
                time_candidate(sampler.slot_count(pair, time.monotonic() - start))
            else:
                report_progress(rival.name)
                batches.rival.append(rival.time_batch()[0])
        if pair % CHECK_EVERY_PAIRS == 0:
            time_candidate(1, single_call=True)
    return sampler.checked_count
