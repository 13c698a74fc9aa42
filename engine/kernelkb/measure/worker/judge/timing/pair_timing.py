"""Times pairs of batches, candidate and rival in alternating order, until the budget is used.

Or until the least number of pairs shows that the candidate is slower by far.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple

from kernelkb.measure.worker.judge.timing.plain_answers import (
    FAR_PAIRS,
    is_far_slower,
    is_slower_in_pairs,
)
from kernelkb.measure.worker.judge.timing.runner_timer import RunnerTimer
from kernelkb.measure.worker.judge.timing.sampling import OutputSampler
from kernelkb.measure.worker.judge.timing.timed_batch import draw_none
from kernelkb.measure.worker.shared.messages.judge_jobs import Batch, BenchJob, PairTimes

_WARM_UP_BATCHES = 2
_SINGLE_CALL_CHANCE = 0.4
"""After a pair, to time a call alone of both as well; where batches are longer than one call."""
_MIN_SINGLE_CALLS = 7
_SUCCESSIVE_CALLS_CHANCE = 0.3
"""After a pair, to check calls that follow one another; where batches are of one call."""
_MIN_SUCCESSIVE_CHECKS = 4
_MAX_EXTRA_PAIRS = 60
"""Pairs after the last that the time allows, until enough calls were compared and timed alone."""


class IncorrectCallError(Exception):
    """A timed call of the candidate was incorrect."""


def time_pairs(
    job: BenchJob,
    candidate: RunnerTimer,
    rival: RunnerTimer,
    report_progress: Callable[[str], None],
) -> PairTimes:
    """Time pairs of batches, and pairs of single calls in between.

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
    timing = _PairTiming(job, candidate, rival, report_progress)
    timing.time_until_budget()
    batches, new_threads = timing.batches, candidate.threads.count_new()
    return {
        "candidate_batches": batches.candidate,
        "rival_batches": batches.rival,
        "single_call_batches": batches.single_call,
        "rival_single_call_batches": batches.rival_single_call,
        "warm_call_ns": warm_call_ns,
        "busy_cores": candidate.busy_cores() if job["target"] == "cpu" else None,
        "checked_count": timing.sampler.checked_count,
        "check_s": timing.sampler.check_s,
        "is_plainly_slower": timing.is_plainly_slower,
        "new_thread_count": new_threads,
        "idle_cpu_ns": candidate.threads.idle_cpu_ns() if new_threads else 0.0,
    }


class _PairedBatches(NamedTuple):
    candidate: list[Batch]
    rival: list[Batch]
    single_call: list[Batch]
    rival_single_call: list[Batch]


class _PairTiming:
    """Batches of candidate and rival, and what was found of the candidate's outputs."""

    def __init__(
        self,
        job: BenchJob,
        candidate: RunnerTimer,
        rival: RunnerTimer,
        report_progress: Callable[[str], None],
    ) -> None:
        self._job, self._candidate, self._rival = job, candidate, rival
        self._report_progress = report_progress
        self._random = random.SystemRandom()
        self._has_single_calls = candidate.batch_calls > 1 or rival.batch_calls > 1
        self._successive_checks = 0
        self.sampler = OutputSampler(candidate, job)
        self.batches = _PairedBatches([], [], [], [])

    def time_until_budget(self) -> None:
        """Append batches until time or pairs are used up and enough of them were compared."""
        end = time.monotonic() + self._job["budget_s"]
        min_pairs, max_pairs = self._job["min_pairs"], self._job["max_pairs"]
        last_pairs = max_pairs + _MAX_EXTRA_PAIRS
        for pair in range(last_pairs):
            is_over = time.monotonic() - self.sampler.check_s > end or pair >= max_pairs
            if pair >= min_pairs and self._has_enough and (is_over or self.is_plainly_slower):
                break
            if self._is_far_slower:
                break
            self._time_pair(self.batches.candidate, self.batches.rival, pair)
            if self._has_single_calls:
                if self._random.random() < _SINGLE_CALL_CHANCE:
                    singles = self.batches.single_call, self.batches.rival_single_call
                    self._time_pair(*singles, pair, single_calls=True)
            elif self._random.random() < _SUCCESSIVE_CALLS_CHANCE:
                self._check_successive_calls()

    @property
    def is_plainly_slower(self) -> bool:
        """Whether the pairs so far decide that the candidate is slower, by a factor of 2."""
        return is_slower_in_pairs(self.batches.candidate, self.batches.rival)

    @property
    def _is_far_slower(self) -> bool:
        """Whether a few pairs decide it: a gain is what a cheat would claim."""
        has_compared = self.sampler.drawn_count >= FAR_PAIRS
        return has_compared and is_far_slower(self.batches.candidate, self.batches.rival)

    @property
    def _has_enough(self) -> bool:
        if self._has_single_calls:
            has_others = len(self.batches.single_call) >= _MIN_SINGLE_CALLS
        else:
            has_others = self._successive_checks >= _MIN_SUCCESSIVE_CHECKS
        return self.sampler.has_enough and has_others

    def _time_pair(
        self, own: list[Batch], rivals: list[Batch], pair: int, *, single_calls: bool = False
    ) -> None:
        """Time one batch of each; they take turns in being the first."""
        for is_candidate in ((True, False), (False, True))[pair % 2]:
            timer = self._candidate if is_candidate else self._rival
            self._report_progress(timer.name)
            draw_slots = self.sampler.draw_slots if is_candidate else draw_none
            timed = (timer.time_single_calls if single_calls else timer.time_batch)(draw_slots)
            (own if is_candidate else rivals).append(timed.batch)
            if is_candidate:
                _raise_fault(self.sampler.find_fault(timed))

    def _check_successive_calls(self) -> None:
        self._report_progress(self._candidate.name)
        self._successive_checks += 1
        _raise_fault(self._candidate.find_successive_fault())


def _raise_fault(fault: str | None) -> None:
    if fault:
        raise IncorrectCallError(fault)
