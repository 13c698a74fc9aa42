"""Arranges attempts as a tree: the best path, dead ends, and the time that was spent. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from kernelkb.model.records.attempt import Attempt, AttemptEvent, AttemptId, ChangeOutcome
from kernelkb.model.records.verdict import is_valid

_TIE = 1.005
"""Times this near are equal: of them the first attempt is the best (judgement)."""
_ON_DEVICE = ("check", "bench", "profile")


class BenchPlace(NamedTuple):
    """What times must share to be compared."""

    workload: str
    device: str


class AttemptNode(NamedTuple):
    """One attempt, with all that was done with it."""

    attempt: Attempt
    events: tuple[AttemptEvent, ...]
    children: tuple[AttemptId, ...]

    @property
    def said(self) -> str | None:
        """What the author says that the change is, by the newest words."""
        notes = [event.found for event in self.events if event.kind == "note"]
        return notes[-1] if notes else self.attempt.said

    @property
    def outcome(self) -> ChangeOutcome | None:
        """What the change that led here gave, by the newest measurement; None for a first state."""
        return next((one.outcome for one in reversed(self.events) if one.outcome), None)

    @property
    def failure(self) -> str | None:
        """Why the newest step failed; None if it did not."""
        steps = [event for event in self.events if event.kind in ("build", "check", "bench")]
        last_failed = steps and steps[-1].status == "failure"
        return steps[-1].found if last_failed else None

    def find_time_us(self, place: BenchPlace) -> float | None:
        """Return the newest valid time of a call; None without one, or where it is wrong now."""
        if self.failure is not None:
            return None
        return next(
            (
                event.candidate_us
                for event in reversed(self.events)
                if event.kind == "bench"
                and event.candidate_us is not None
                and is_valid(event.verdict)
                and (event.workload, event.device) == place
            ),
            None,
        )


class AttemptTree(NamedTuple):
    """The attempts at a kernel."""

    nodes: dict[AttemptId, AttemptNode]
    """The oldest first; a parent stands before its children."""
    roots: tuple[AttemptId, ...]
    place: BenchPlace | None
    """Where most attempts were timed; their times are compared. None without a time."""
    best: AttemptId | None
    """The fastest valid attempt there."""
    seconds: float
    """Of all steps."""
    device_seconds: float
    """Of those on the device: checks, benches, profiles."""

    def list_path(self, attempt: AttemptId | None) -> list[AttemptId]:
        """Return an attempt and its ancestors, the first state first; empty for None."""
        path: list[AttemptId] = []
        while attempt is not None and attempt in self.nodes and attempt not in path:
            path.append(attempt)
            attempt = self.nodes[attempt].attempt.parent
        return path[::-1]


def build_tree(attempts: Iterable[Attempt], events: Iterable[AttemptEvent]) -> AttemptTree:
    """Return the tree of some attempts; one whose parent is not among them is a first state."""
    known = {one.id: one for one in sorted(attempts, key=lambda one: (one.at, one.id))}
    of_attempt: dict[AttemptId, list[AttemptEvent]] = {name: [] for name in known}
    for event in sorted(events, key=lambda one: (one.at, one.id)):
        if event.attempt in of_attempt:
            of_attempt[event.attempt].append(event)
    children: dict[AttemptId, list[AttemptId]] = {name: [] for name in known}
    for one in known.values():
        if one.parent in known:
            children[one.parent].append(one.id)
    nodes = {
        name: AttemptNode(one, tuple(of_attempt[name]), tuple(children[name]))
        for name, one in known.items()
    }
    everything = [event for found in of_attempt.values() for event in found]
    place = _find_place(everything)
    return AttemptTree(
        nodes=nodes,
        roots=tuple(name for name, one in known.items() if one.parent not in known),
        place=place,
        best=_find_best(nodes, place),
        seconds=sum(event.seconds for event in everything),
        device_seconds=sum(event.seconds for event in everything if event.kind in _ON_DEVICE),
    )


def _find_place(events: Sequence[AttemptEvent]) -> BenchPlace | None:
    places = Counter(
        BenchPlace(event.workload, event.device)
        for event in events
        if event.kind == "bench" and event.candidate_us and event.workload and event.device
    )
    return max(places, key=lambda place: (places[place], place), default=None)


def _find_best(nodes: dict[AttemptId, AttemptNode], place: BenchPlace | None) -> AttemptId | None:
    if place is None:
        return None
    times = {name: node.find_time_us(place) for name, node in nodes.items()}
    timed = {name: time for name, time in times.items() if time is not None}
    fastest = min(timed.values(), default=0.0)
    return next((name for name in nodes if timed.get(name, inf) <= fastest * _TIE), None)
