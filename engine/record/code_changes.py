"""Moments → how often the code was changed, how often blindly, and how often for the worse."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kernelkb.model.session import Step
from kernelkb.record.legacy_steps import Timing, timing_of
from kernelkb.record.timeline import Code, Moment, Place


class Changes(NamedTuple):
    """Counts; None where the record does not say. See ``Outcomes``."""

    made: int | None
    blind: int | None
    judged: int | None
    wrong: int | None


class _Change(NamedTuple):
    old: Code
    new: Code
    blind: bool


class _Known:
    """What the steps said of each code."""

    def __init__(self) -> None:
        self.failed: set[Code] = set()
        self.timings: dict[Code, Timing] = {}
        self.duels: dict[Code, tuple[float, float]] = {}
        """Interval of a code's speedup next to the one before it."""

    def learn(self, code: Code, step: Step) -> None:
        """Take one step's result."""
        if step.name == "check" and step.status == "failure":
            self.failed.add(code)
        timing = timing_of(step)
        if step.name == "bench" and timing:
            self.timings[code] = timing
        if step.name == "compare" and timing and timing.interval:
            self.duels[code] = timing.interval

    def wrong(self, change: _Change) -> bool | None:
        """Return whether a change was wrong; None where nothing tells."""
        if change.new in self.failed:
            return True
        duel = self.duels.get(change.new)
        if duel:
            return duel[1] < 1
        old, new = self.timings.get(change.old), self.timings.get(change.new)
        if not (old and new and old.interval and new.interval):
            return None
        if (old.baseline, old.workload) != (new.baseline, new.workload):
            return None
        return new.interval[1] < old.interval[0]


def count_changes(moments: Iterable[Moment]) -> Changes:
    """Count the changes of a session, of all its kernels and machines together.

    A build that failed changed nothing that could run. Code that was there before is no change.
    """
    known = _Known()
    made: list[_Change] = []
    current: dict[Place, Code] = {}
    seen: set[Code] = set()
    profiled: dict[Place, bool] = {}
    told = False
    for step, place, code, _ in moments:
        if code is None:
            continue
        told = True
        if step.name == "build" and step.status == "failure":
            continue
        old = current.get(place)
        if old and code not in seen:
            repair = old in known.failed
            made.append(_Change(old, code, not (repair or profiled.get(place))))
            profiled[place] = False
        seen.add(code)
        current[place] = code
        if step.name == "profile" and step.status != "failure":
            profiled[place] = True
        known.learn(code, step)
    if not told:
        return Changes(None, None, None, None)
    judged = [wrong for wrong in map(known.wrong, made) if wrong is not None]
    wrong = None if made and not judged else sum(judged)
    return Changes(len(made), sum(change.blind for change in made), len(judged), wrong)
