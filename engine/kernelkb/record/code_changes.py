"""Counts the code changes of a session: all, those without a prior profile, and wrong ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kernelkb.model.records.session import Step
from kernelkb.record.timeline import (
    BenchTiming,
    CodeState,
    StepContext,
    TimedStep,
    get_valid_timing,
)


class ChangeCounts(NamedTuple):
    """Counts of code changes; None if the record lacks the data. See ``SessionOutcome``."""

    total: int | None
    blind: int | None
    with_verdict: int | None
    wrong: int | None


class _CodeChange(NamedTuple):
    old: CodeState
    new: CodeState
    blind: bool


class _CodeResults:
    """The results of the steps, for each state of the code."""

    def __init__(self) -> None:
        self.failed: set[CodeState] = set()
        self.timings: dict[CodeState, BenchTiming] = {}
        self.comparison_intervals: dict[CodeState, tuple[float, float]] = {}
        """95 % interval of a code's speedup over the code before it."""

    def record_step(self, code: CodeState, step: Step) -> None:
        """Record the result of one step."""
        if step.name == "check" and step.status == "failure":
            self.failed.add(code)
        timing = get_valid_timing(step)
        if step.name == "bench" and timing:
            self.timings[code] = timing
        if step.name == "compare" and timing and timing.interval:
            self.comparison_intervals[code] = timing.interval

    def is_wrong(self, change: _CodeChange) -> bool | None:
        """Return whether a change failed its check or made the code slower; None if unknown."""
        if change.new in self.failed:
            return True
        duel = self.comparison_intervals.get(change.new)
        if duel:
            return duel[1] < 1
        old, new = self.timings.get(change.old), self.timings.get(change.new)
        if not (old and new and old.interval and new.interval):
            return None
        if (old.baseline, old.workload) != (new.baseline, new.workload):
            return None
        return new.interval[1] < old.interval[0]


def count_changes(steps: Iterable[TimedStep]) -> ChangeCounts:
    """Count the code changes of a session, over all its kernels and machines.

    A failed build is no change, because it made no code that runs; neither is a return to code
    that was seen before.
    """
    known = _CodeResults()
    made: list[_CodeChange] = []
    current: dict[StepContext, CodeState] = {}
    seen: set[CodeState] = set()
    profiled: dict[StepContext, bool] = {}
    told = False
    for step, place, code, _ in steps:
        if code is None:
            continue
        told = True
        if step.name == "build" and step.status == "failure":
            continue
        old = current.get(place)
        if old and code not in seen:
            repair = old in known.failed
            made.append(_CodeChange(old, code, not (repair or profiled.get(place))))
            profiled[place] = False
        seen.add(code)
        current[place] = code
        if step.name == "profile" and step.status != "failure":
            profiled[place] = True
        known.record_step(code, step)
    if not told:
        return ChangeCounts(None, None, None, None)
    judged = [wrong for wrong in map(known.is_wrong, made) if wrong is not None]
    wrong = None if made and not judged else sum(judged)
    return ChangeCounts(len(made), sum(change.blind for change in made), len(judged), wrong)
