"""Chooses which timed calls are compared with the reference: all would take too long.

Every call is looked at; see ``output_marks``. What is compared with the reference besides is drawn
after a batch has ended, from the operating system's randomness, so a candidate can neither know nor
compute in which batches it has to do its work.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from kernelkb.measure.worker.judge.buffers.output_marks import OutputMark
from kernelkb.measure.worker.judge.timing.runner_timer import RunnerTimer
from kernelkb.measure.worker.judge.timing.timed_batch import TimedBatch
from kernelkb.measure.worker.shared.messages.judge_jobs import BenchJob

MIN_BATCHES = 15
"""Batches that are compared, at least, however long that takes."""
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

    @property
    def has_enough(self) -> bool:
        """Whether the least number of batches was compared."""
        return self.drawn_count >= MIN_BATCHES

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
