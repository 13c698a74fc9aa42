"""Session → its steps on one clock, each with the code that it ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kernelkb.model.base import Target
from kernelkb.model.session import Entry, Session, Step

_BREAK = timedelta(hours=1)
"""A longer pause between two steps is time off."""

_CODED = ("build", "check", "bench", "profile", "tune", "compare")
"""Steps that run the code of a variant."""


class Place(NamedTuple):
    """What is optimised, and where: numbers of two places say nothing about one another."""

    kernel: str | None
    target: Target | None
    machine: str | None


class Code(NamedTuple):
    """One state of the sources of a variant."""

    place: Place
    variant: str | None
    sources: str | None


class Moment(NamedTuple):
    """A step, and what the clock showed at its end."""

    step: Step
    place: Place
    code: Code | None
    """None for a step that runs no code, or does not say which."""
    minutes: float | None
    """None where the record does not say."""


class Timeline(NamedTuple):
    """A session's steps, and how long all of it took."""

    moments: tuple[Moment, ...]
    minutes: float | None


def timeline(session: Session) -> Timeline:
    """Return the steps in the order they were recorded.

    The clock counts the seconds of each step, and the pause before it where both ends are known.
    An entry that gives its minutes took at least as long.
    """
    clock = _Clock(session)
    placed: list[tuple[Step, Place, float | None]] = []
    for entry in session.entries:
        place = Place(entry.kernel or session.kernel, entry.target, entry.machine)
        clock.enter()
        placed += [(step, place, clock.after(step)) for step in entry.steps]
        clock.leave(entry)
    codes = _codes([(step, place) for step, place, _ in placed])
    moments = tuple(
        Moment(step, place, code, minutes)
        for (step, place, minutes), code in zip(placed, codes, strict=True)
    )
    return Timeline(moments, clock.total)


class _Clock:
    """Minutes since the session was opened, and whether they are known."""

    def __init__(self, session: Session) -> None:
        self._account = session.kind == "reported"
        self._opened = aware(session.opened)
        self._last: datetime | None = None
        self._minutes = self._entered = 0.0
        self._timed = False
        self._whole = self._clear = True

    def enter(self) -> None:
        """Begin an entry."""
        self._entered = self._minutes
        self._clear = True

    def after(self, step: Step) -> float | None:
        """Return the time at the end of a step."""
        self._timed = True
        self._clear &= not (self._account and step.seconds == 0)
        took = timedelta(seconds=step.seconds)
        if step.at is not None:
            at = aware(step.at)
            pause = at - (self._last or min(self._opened, at))
            self._last = max(self._last or at, at + took)
            # Below zero where two assistants worked at once: the clock counts that time once.
            took = max(took + (pause if pause < _BREAK else timedelta(0)), timedelta(0))
        elif self._last is not None:
            self._last += took
        self._minutes += took.total_seconds() / 60
        return self._minutes if self._whole and self._clear else None

    def leave(self, entry: Entry) -> None:
        """End an entry, which may say itself how long it took."""
        if entry.minutes is not None:
            self._timed = True
            self._minutes = max(self._minutes, self._entered + entry.minutes)
        elif not self._clear:
            self._whole = False

    @property
    def total(self) -> float | None:
        """The whole session."""
        return self._minutes if self._timed and self._whole else None


def aware(moment: datetime) -> datetime:
    """Return a time with its zone; one without, as somebody may type it, is UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _codes(placed: Sequence[tuple[Step, Place]]) -> Iterator[Code | None]:
    """Yield the code of each step.

    A step without a digest ran the sources that its variant had before, or else has next.
    """
    first: dict[tuple[Place, str | None], str] = {}
    for step, place in placed:
        if step.sources:
            first.setdefault((place, step.variant), step.sources)
    latest = dict(first)
    for step, place in placed:
        if step.name not in _CODED or not (step.variant or step.sources):
            yield None
            continue
        if step.sources:
            latest[place, step.variant] = step.sources
        yield Code(place, step.variant, latest.get((place, step.variant)))
