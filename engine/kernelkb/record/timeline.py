"""Puts the steps of a session on one clock (minutes), each with the state of the code it ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kernelkb.model.base import Target
from kernelkb.model.records.session import Session, SessionEntry, Step
from kernelkb.model.records.verdict import is_failure

_MAX_PAUSE = timedelta(hours=1)
"""A longer pause between two steps is not counted as working time."""

"""None: sessions of the first release recorded no verdict."""

_CODE_STEPS = ("build", "check", "bench", "profile", "tune", "compare")
"""Steps that run the code of a variant."""


class StepContext(NamedTuple):
    """Kernel, target and machine of a step; results are comparable only within one context."""

    kernel: str | None
    target: Target | None
    machine: str | None


class CodeState(NamedTuple):
    """One state of the sources of a variant."""

    context: StepContext
    variant: str | None
    sources: str | None


class TimedStep(NamedTuple):
    """A step, with the session clock at its end."""

    step: Step
    context: StepContext
    code: CodeState | None
    """None for a step that runs no code of a variant, or does not record which."""
    minutes: float | None
    """Minutes since the session was opened; None if the record lacks the times."""


class BenchTiming(NamedTuple):
    """A valid speedup: baseline time over candidate time, with its 95 % interval."""

    speedup: float
    interval: tuple[float, float] | None
    baseline: str | None
    workload: str | None


class Timeline(NamedTuple):
    """The steps of a session, and its total minutes; None if the record lacks the times."""

    steps: tuple[TimedStep, ...]
    minutes: float | None


def get_valid_timing(step: Step) -> BenchTiming | None:
    """Return the speedup that a step measured; None without a valid one."""
    if step.status == "failure" or step.speedup is None or is_failure(step.verdict):
        return None
    return BenchTiming(step.speedup, step.interval, step.baseline, step.workload)


def build_timeline(session: Session) -> Timeline:
    """Return the steps in the order they were recorded.

    The clock adds the seconds of each step, and the pause before it if both of its ends are known.
    An entry with minutes of its own takes at least that long.
    """
    clock = _Clock(session)
    placed: list[tuple[Step, StepContext, float | None]] = []
    for entry in session.entries:
        place = StepContext(entry.kernel or session.kernel, entry.target, entry.machine)
        clock.begin_entry()
        placed += [(step, place, clock.advance(step)) for step in entry.steps]
        clock.end_entry(entry)
    codes = _iter_code_states([(step, place) for step, place, _ in placed])
    moments = tuple(
        TimedStep(step, place, code, minutes)
        for (step, place, minutes), code in zip(placed, codes, strict=True)
    )
    return Timeline(moments, clock.total)


class _Clock:
    """Counts the minutes since the session was opened, and whether the record has them all."""

    def __init__(self, session: Session) -> None:
        self._is_reported = session.kind == "reported"
        self._opened = ensure_time_zone(session.opened)
        self._last: datetime | None = None
        self._minutes = self._entry_start = 0.0
        self._has_times = False
        self._all_known = self._entry_known = True

    def begin_entry(self) -> None:
        """Begin an entry."""
        self._entry_start = self._minutes
        self._entry_known = True

    def advance(self, step: Step) -> float | None:
        """Add a step; return the minutes at its end, or None if unknown."""
        self._has_times = True
        self._entry_known &= not (self._is_reported and step.seconds == 0)
        took = timedelta(seconds=step.seconds)
        if step.at is not None:
            at = ensure_time_zone(step.at)
            pause = at - (self._last or min(self._opened, at))
            self._last = max(self._last or at, at + took)
            # Negative if two assistants worked in parallel: the clock counts that time once.
            took = max(took + (pause if pause < _MAX_PAUSE else timedelta(0)), timedelta(0))
        elif self._last is not None:
            self._last += took
        self._minutes += took.total_seconds() / 60
        return self._minutes if self._all_known and self._entry_known else None

    def end_entry(self, entry: SessionEntry) -> None:
        """End an entry; minutes of its own are the least that it took."""
        if entry.minutes is not None:
            self._has_times = True
            self._minutes = max(self._minutes, self._entry_start + entry.minutes)
        elif not self._entry_known:
            self._all_known = False

    @property
    def total(self) -> float | None:
        """Minutes of the whole session; None if the record lacks the times."""
        return self._minutes if self._has_times and self._all_known else None


def ensure_time_zone(moment: datetime) -> datetime:
    """Return a time with a time zone; a time without one, such as a hand-typed time, is UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _iter_code_states(placed: Sequence[tuple[Step, StepContext]]) -> Iterator[CodeState | None]:
    """Yield the state of the code of each step; None for a step that runs no code.

    A step without a digest of its sources ran the last sources of its variant, or else the next.
    """
    first: dict[tuple[StepContext, str | None], str] = {}
    for step, place in placed:
        if step.sources:
            first.setdefault((place, step.variant), step.sources)
    latest = dict(first)
    for step, place in placed:
        if step.name not in _CODE_STEPS or not (step.variant or step.sources):
            yield None
            continue
        if step.sources:
            latest[place, step.variant] = step.sources
        yield CodeState(place, step.variant, latest.get((place, step.variant)))
