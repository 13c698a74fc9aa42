"""Pairs of batches of candidate and rival, whose outputs are looked at, and when they suffice.

Less is measured on the slow side only: a gain is what a cheat would claim, so a fast candidate is
timed in full.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kernelkb.measure.worker.judge.hidden_reference import HiddenReference, UndefinedError
from kernelkb.measure.worker.judge.inputs.hidden_inputs import DESCRIPTIONS, NON_FINITE
from kernelkb.measure.worker.judge.inputs.inputs import PreparedInputs
from kernelkb.measure.worker.judge.returned_outputs import OutputMark, draw_none
from kernelkb.measure.worker.judge.timing.runner_timer import RunnerTimer, TimedBatch
from kernelkb.measure.worker.shared.failures import RunnerError
from kernelkb.measure.worker.shared.messages.jobs import Batch, BenchJob, PairTimes, RivalTimes
from kernelkb.measure.worker.shared.messages.specs import Distribution

_MIN_TRIAL_RATIO = 3.0
"""In trial batches. Rivals are left out for it, and the timed pairs have to confirm it."""
_MIN_PAIR_RATIO = 2.0
_OUTLIERS = 1
"""Pairs that may show less: with the least number of pairs, the 95 % interval of their median ends
well above the second lowest of them."""
_FAR_RATIO = 10.0
FAR_PAIRS = 6
"""Pairs that suffice where all show it: the 95 % interval of their median is all of them."""

_MIN_NET_SHARE = 0.1
"""The round trip and copies are at most nine tenths of a batch."""

MIN_BATCHES = 15
"""Batches that are compared, at least, however long that takes, with those on hidden inputs."""
_MIN_OWN_BATCHES = 10
"""Of them, on inputs as the task draws them."""
_MAX_CHANCE = 0.75
"""Chance that a batch is compared, where comparing takes longer than its share of the time. It is
never 1, so that the candidate cannot know; from batch 20 on it is 15 by the batch's number, so that
the later half of any bench holds 10 comparisons, as a mean."""
_TIME_SHARE = 0.4
"""Share of the elapsed time within which every batch is compared."""
_SLOTS_PER_BATCH = 3
_SMALL_WORKING_SET_BYTES = 2**22
"""Cases up to 4 MiB are compared on three slots per batch, larger ones on one."""
_LAST_CALL_SHARE = 0.5
"""How often the last call of a batch is among the sampled ones: it is the easiest to postpone."""
_WARM_UP_BATCHES = 2
_SINGLE_CALL_CHANCE = 0.4
"""After a pair, to time a call alone of both as well; where batches are longer than one call."""
_MIN_SINGLE_CALLS = 7
_SUCCESSIVE_CALLS_CHANCE = 0.3
"""After a pair, to check calls that follow one another; where batches are of one call."""
_MIN_SUCCESSIVE_CHECKS = 4
_BUSY_SPREAD = 0.1
"""Of the ratios of pairs, between their quartiles, from which a bench on a CPU needs more pairs."""
_BUSY_PAIRS = 100
_BUSY_TIME_FACTOR = 6.0
"""How much longer than it was asked to, at most, a bench times for that."""
_HIDDEN_CHANCE = 1 / 3
"""Of a pair, to hold hidden inputs and not to count."""
_HIDDEN_TIME_SHARE = 0.3
"""Of the elapsed time: what hidden inputs may take, once some were asked."""
_MIN_HIDDEN = 3
JUDGE = "the judge"
"""Named as what works while the reference runs and outputs are compared: no runner's time."""
_MAX_EXTRA_PAIRS = 60
"""Pairs after the last that the time allows, until enough calls were compared and timed alone."""
_MIN_TOLD_PAIRS = 6
_TOLD_EVERY_S = 0.25
"""Between two reports of what the pairs say so far: 0.2 ms of 60 pairs."""


def is_slower_in_pairs(candidate: Sequence[Batch], rival: Sequence[Batch]) -> bool:
    """Return whether the candidate took over twice the rival's time in all pairs but one.

    By the judge's clock, less its round trip and the copies of outputs as the rival has them: a
    batch of one has fewer calls than one of the other where the trials were wrong.

    Args:
        candidate: Batches of the candidate.
        rival: As many of the rival; those of one index were timed one after the other.
    """
    ratios = sort_ratios(candidate, rival)
    return len(ratios) > _OUTLIERS and ratios[_OUTLIERS] > _MIN_PAIR_RATIO


def is_far_slower(candidate: Sequence[Batch], rival: Sequence[Batch]) -> bool:
    """Return whether the candidate took over 10 times the rival's time in all of 6 pairs or more.

    Args:
        candidate: As of ``is_slower_in_pairs``.
        rival: The same.
    """
    ratios = sort_ratios(candidate, rival)
    return len(ratios) >= FAR_PAIRS and ratios[0] > _FAR_RATIO


def sort_ratios(candidate: Sequence[Batch], rival: Sequence[Batch]) -> list[float]:
    """Return the time of a candidate's call over that of a rival's, pair by pair, sorted.

    Args:
        candidate: As of ``is_slower_in_pairs``.
        rival: The same.
    """
    if not rival:
        return []
    overhead_ns = statistics.median(b.judge_ns - b.runner_ns - b.copy_ns for b in rival)
    return sorted(
        _net_call_ns(own, other, overhead_ns) / _net_call_ns(other, other, overhead_ns)
        for own, other in zip(candidate, rival, strict=True)
    )


def _net_call_ns(batch: Batch, rival: Batch, overhead_ns: float) -> float:
    net_ns = (batch.judge_ns - overhead_ns) / batch.calls - rival.copy_ns / rival.calls
    return max(net_ns, _MIN_NET_SHARE * batch.judge_ns / batch.calls)


def is_slower_in_trials(candidate: RivalTimes, rivals: Mapping[str, RivalTimes]) -> bool:
    """Return whether the candidate takes at least 3 times as long as one of its rivals.

    However a pair is timed in the end: the candidate as it is fastest, and a rival in a CUDA graph
    only where the candidate can be in one, too.

    Args:
        candidate: Of trial batches.
        rivals: The same of each rival.
    """
    in_graph = candidate["graph_ns"] is not None
    own_ns = candidate["graph_ns"] or candidate["eager_ns"]
    rival_ns = min(
        (in_graph and times["graph_ns"]) or times["eager_ns"] for times in rivals.values()
    )
    return own_ns >= _MIN_TRIAL_RATIO * rival_ns


class OutputSampler:
    """Draws batches and calls, and compares them with the reference.

    Attributes:
        drawn_count: Batches of which calls were drawn.
        checked_count: Calls that were compared.
        check_s: Seconds that comparing took.
    """

    def __init__(self, timer: RunnerTimer, job: BenchJob) -> None:
        self._timer = timer
        self._random = random.SystemRandom()
        is_small = job["working_set_bytes"] <= _SMALL_WORKING_SET_BYTES
        self._max_slots = _SLOTS_PER_BATCH if is_small else 1
        self._start = time.monotonic()
        self._batch_count = self.drawn_count = self._suspect_count = 0
        self._seen: set[bytes] = set()
        self.checked_count = 0
        self.check_s = 0.0

    def draw_slots(self, slots: Sequence[int]) -> list[int]:
        """Return the slots of a batch to compare, now that it has ended; mostly none or one."""
        self._batch_count += 1
        if self._random.random() >= self._chance(self._batch_count):
            return []
        self.drawn_count += 1
        drawn = self._random.sample(slots, min(self._max_slots, len(slots)))
        if self._random.random() < _LAST_CALL_SHARE and slots[-1] not in drawn:
            drawn[0] = slots[-1]
        return drawn

    def _chance(self, number: int) -> float:
        """Return the chance of the batch or the suspect of a number, counted from 1."""
        if self.check_s < _TIME_SHARE * (time.monotonic() - self._start):
            return 1.0
        return min(_MAX_CHANCE, MIN_BATCHES / number)

    def find_fault(self, timed: TimedBatch) -> str | None:
        """Look at every call of a batch, and compare the drawn ones; report what is wrong."""
        start = time.monotonic()
        fault = self._timer.find_fault(timed.outputs) if timed.outputs else None
        self.checked_count += len(timed.outputs)
        read_marks = timed.marks or self._timer.read_marks(timed.slots)
        marks = dict(zip(timed.slots, read_marks, strict=True))
        if not fault and any(mark.is_late for mark in marks.values()):
            fault = "its outputs changed after its calls had returned"
        fault = fault or self._find_suspect_fault(timed, marks)
        self.check_s += time.monotonic() - start
        if fault and self._timer.shares_outputs and len(timed.slots) > 1:
            return f"{fault}: its outputs share memory, so a later call has overwritten them"
        return fault

    def _find_suspect_fault(self, timed: TimedBatch, marks: dict[int, OutputMark]) -> str | None:
        """Compare a call that looks as if nothing had been computed, unless it was drawn anyway.

        The reference decides: it may write such elements too, as integers of few values are.
        """
        suspects = self._list_suspects(marks)
        if not suspects:
            return None
        slot = self._random.choice(suspects)
        self._suspect_count += 1
        is_limited = self._suspect_count > MIN_BATCHES
        if slot in timed.outputs or (
            is_limited and self._random.random() >= self._chance(self._suspect_count)
        ):
            return None
        self.checked_count += 1
        outputs = timed.kept_outputs.get(slot) or self._timer.copy_outputs(slot)
        fault = self._timer.find_fault({slot: outputs})
        if fault is None or marks[slot].is_unwritten:
            return fault
        return f"{fault}: it left what an earlier call had left"

    def _list_suspects(self, marks: dict[int, OutputMark]) -> list[int]:
        suspects = []
        for slot, mark in marks.items():
            if mark.is_unwritten or mark.content in self._seen:
                suspects.append(slot)
            self._seen.add(mark.content)
        return suspects


class HiddenBatches:
    """Batches on inputs of hidden distributions, in place of some that count.

    A candidate may be right for the task's own inputs only, and know a check from a bench. These
    batches are run by the process that is timed and by the command that times it, at moments that
    are drawn, and are prepared just as the others are: what takes longer, to draw the inputs and to
    compute what is right for them, is done after an earlier batch. The rival has its turn beside
    them, too: how often it ran since the last batch is the same whether a batch counts or not.

    Attributes:
        asked_count: Batches that were run.
        passed: Distributions on which a call was right, in words.
        spent_s: Seconds that all of it took.
    """

    def __init__(self, timer: RunnerTimer) -> None:
        self._timer, self._random = timer, random.SystemRandom()
        self._start_s = time.monotonic()
        self._distributions = timer.list_distributions()
        self._pending: list[Distribution] = []
        self._prepared: tuple[PreparedInputs, HiddenReference] | None = None
        self._own_rms: list[float] | None = None
        self.asked_count = 0
        self.passed: list[str] = []
        self.spent_s = 0.0

    @property
    def has_enough(self) -> bool:
        """Whether each distribution was asked, or as many as there was time for."""
        if not self._distributions or self.asked_count >= len(self._distributions):
            return True
        return self.asked_count >= _MIN_HIDDEN and not self._has_time

    def are_drawn(self) -> bool:
        """Draw whether the next pair holds hidden inputs; never where none are prepared."""
        return self._prepared is not None and self._random.random() < _HIDDEN_CHANCE

    @property
    def _has_time(self) -> bool:
        return self.spent_s < _HIDDEN_TIME_SHARE * (time.monotonic() - self._start_s)

    def prepare(self) -> None:
        """Draw inputs for a later batch, and compute what is right for them, unless that is done.

        A distribution for which the reference does not say what is right is left out.
        """
        start_s = time.monotonic()
        while self._distributions and self._prepared is None:
            if self.asked_count >= _MIN_HIDDEN and not self._has_time:
                break
            if not self._pending:
                self._pending = self._random.sample(self._distributions, len(self._distributions))
            distribution = self._pending.pop()
            try:
                self._own_rms = self._own_rms or self._timer.measure_own_rms()
                self._prepared = self._timer.prepare_hidden(distribution, self._own_rms)
            except UndefinedError:
                self._distributions.remove(distribution)
        self.spent_s += time.monotonic() - start_s

    def find_fault(self, *, single_calls: bool) -> str | None:
        """Run a batch on the prepared inputs; report what is wrong with it.

        Args:
            single_calls: Whether calls are made one by one.
        """
        if self._prepared is None:
            return None
        (inputs, reference), self._prepared = self._prepared, None
        words = DESCRIPTIONS[inputs.distribution]
        self.asked_count += 1
        time_calls = self._timer.time_single_calls if single_calls else self._timer.time_batch
        try:
            fault = self._timer.find_hidden_fault(time_calls(hidden=inputs), reference)
        except RunnerError as error:
            if inputs.distribution not in NON_FINITE:
                raise RunnerError(f"{error}, with {words}", error.runner_name) from error
            self._timer.pause()  # it may refuse what is not finite
            self._distributions.remove(inputs.distribution)
            return None
        if fault is None and words not in self.passed:
            self.passed.append(words)
        return f"{fault}, with {words}" if fault else None


class IncorrectCallError(Exception):
    """A timed call of the candidate was incorrect."""


def time_pairs(
    job: BenchJob,
    candidate: RunnerTimer,
    rival: RunnerTimer,
    report_progress: Callable[..., None],
) -> PairTimes:
    """Time pairs of batches, and pairs of single calls in between.

    Args:
        job: Limits of time and pairs.
        candidate: Its batches are planned; sampled outputs are compared with the reference.
        rival: Its batches are planned.
        report_progress: Called with the name of the runner that runs next, and the pairs so far.

    Raises:
        IncorrectCallError: A sampled output of the candidate is incorrect.
        RunnerDied, RunnerError: A runner ended, or reported an error.
    """
    timing = _PairTiming(job, candidate, rival, report_progress)
    warm_call_ns = timing.warm_up()
    timing.time_until_budget()
    report_progress(candidate.name)
    new_threads = candidate.threads.count_new()
    cores = candidate.busy_cores() if job["target"] == "cpu" else None
    return {
        "candidate_batches": timing.batches.candidate,
        "rival_batches": timing.batches.rival,
        "single_call_batches": timing.batches.single_call,
        "rival_single_call_batches": timing.batches.rival_single_call,
        "warm_call_ns": warm_call_ns,
        "busy_cores": cores and cores.mean,
        "are_busy_cores_certain": bool(cores and cores.is_certain),
        "checked_count": timing.sampler.checked_count,
        "hidden_inputs": timing.hidden.passed,
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
        report_progress: Callable[..., None],
    ) -> None:
        self._job, self._candidate, self._rival = job, candidate, rival
        self._report_progress = report_progress
        self._random = random.SystemRandom()
        self._has_single_calls = candidate.batch_calls > 1 or rival.batch_calls > 1
        self._successive_checks = self._turn = 0
        self._told_s = 0.0
        self.sampler = OutputSampler(candidate, job)
        self.hidden = HiddenBatches(candidate)
        self.batches = _PairedBatches([], [], [], [])

    def warm_up(self) -> float:
        """Run both for some batches, equally; return the candidate's ``warm_call_ns``."""
        for timer in (self._candidate, self._rival) * _WARM_UP_BATCHES:
            self._report_progress(timer.name)
            timer.time_batch()
        warm_call_ns, _ = self._candidate.warm_call_ns(), self._rival.warm_call_ns()
        return warm_call_ns

    def time_until_budget(self) -> None:
        """Append batches until time or pairs are used up and enough of them were compared."""
        start = time.monotonic()
        min_pairs, max_pairs = self._job["min_pairs"], self._job["max_pairs"]
        last_pairs = max_pairs + _MAX_EXTRA_PAIRS
        while (pair := len(self.batches.candidate)) < last_pairs:
            judging_s = self.sampler.check_s + self.hidden.spent_s
            timed_s = time.monotonic() - start - judging_s
            is_over = timed_s > self._job["budget_s"] or pair >= max_pairs
            is_over = is_over and not self._needs_more_pairs(pair, timed_s)
            if pair >= min_pairs and self._has_enough and (is_over or self.is_plainly_slower):
                break
            if self._is_far_slower:
                break
            self._time_pair(self.batches.candidate, self.batches.rival)
            if self._has_single_calls:
                if self._random.random() < _SINGLE_CALL_CHANCE:
                    singles = self.batches.single_call, self.batches.rival_single_call
                    self._time_pair(*singles, single_calls=True)
            elif self._random.random() < _SUCCESSIVE_CALLS_CHANCE:
                self._check_successive_calls()
            self._turn += 1
            self._report_progress(JUDGE, so_far=self._describe_so_far())
            self.hidden.prepare()

    def _describe_so_far(self) -> str:
        """Return rival, speedup and its interval by the pairs so far; empty where it was just told.

        Both programs stand still meanwhile, and it decides nothing: the verdict has its own.
        """
        now, count = time.monotonic(), len(self.batches.candidate)
        if count < _MIN_TOLD_PAIRS or now - self._told_s < _TOLD_EVERY_S:
            return ""
        self._told_s = now
        ratios = sort_ratios(self.batches.candidate, self.batches.rival)
        rank = max(int(count / 2 - 0.98 * math.sqrt(count)), 0)
        bounds = (ratios[count // 2], ratios[count - 1 - rank], ratios[rank])
        return " ".join(f"{1 / ratio:.4g}" for ratio in bounds) + f" {self._rival.name}"

    def _needs_more_pairs(self, count: int, timed_s: float) -> bool:
        """Return whether pairs vary as beside other programs, so that these decide little.

        By how much they vary, not by what they say.
        """
        is_late = timed_s > _BUSY_TIME_FACTOR * self._job["budget_s"]
        is_possible = self._job["min_pairs"] <= count < _BUSY_PAIRS and not is_late
        if not is_possible or self._job["target"] != "cpu":
            return False
        ratios = sort_ratios(self.batches.candidate, self.batches.rival)
        quarter = len(ratios) // 4
        return ratios[-1 - quarter] > (1 + _BUSY_SPREAD) * ratios[quarter]

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
        has_hidden = self.hidden.has_enough or self.is_plainly_slower
        drawn_count = self.sampler.drawn_count
        has_compared = (
            drawn_count >= _MIN_OWN_BATCHES and drawn_count + self.hidden.asked_count >= MIN_BATCHES
        )
        return has_compared and has_others and has_hidden

    def _time_pair(
        self, own: list[Batch], rivals: list[Batch], *, single_calls: bool = False
    ) -> None:
        """Time one batch of each, unless this pair is for hidden inputs.

        They take turns in being the first.
        """
        start_s, is_hidden = time.monotonic(), self.hidden.are_drawn()
        for is_candidate in ((True, False), (False, True))[self._turn % 2]:
            timer = self._candidate if is_candidate else self._rival
            self._report_progress(timer.name, len(self.batches.candidate))
            if is_candidate and is_hidden:
                _raise_fault(self.hidden.find_fault(single_calls=single_calls))
                continue
            draw_slots = self.sampler.draw_slots if is_candidate else draw_none
            timed = (timer.time_single_calls if single_calls else timer.time_batch)(draw_slots)
            if not is_hidden:
                (own if is_candidate else rivals).append(timed.batch)
            if is_candidate:
                self._report_progress(JUDGE)
                _raise_fault(self.sampler.find_fault(timed))
        if is_hidden:
            self.hidden.spent_s += time.monotonic() - start_s

    def _check_successive_calls(self) -> None:
        self._report_progress(self._candidate.name)
        self._successive_checks += 1
        _raise_fault(self._candidate.find_successive_fault())


def _raise_fault(fault: str | None) -> None:
    if fault:
        raise IncorrectCallError(fault)
