"""Arranges attempts as a tree: the best path, the time spent, and whether work is stuck. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import inf
from typing import Literal, NamedTuple

from kernelkb.errors import NextStep
from kernelkb.model.answers.report_comparison import (
    FalsifierCheck,
    GainVerdict,
    ReportComparison,
)
from kernelkb.model.records.history import (
    AdvisedChange,
    Attempt,
    AttemptEvent,
    AttemptId,
    ChangeOutcome,
    PairwiseComparison,
)
from kernelkb.model.records.measurement import is_valid

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

    @property
    def is_imported(self) -> bool:
        """Whether something that is shown of it was not done here, by its newest steps.

        A restore, which is not shown, says nothing of who measured.
        """
        shown = [one for one in self.events if one.kind != "restore"]
        newest = {(one.kind, one.workload, one.device): one.imported for one in shown}
        return any(newest.values()) if newest else self.attempt.imported

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


_CHANGES = 4
"""Changes in a row without a confirmed gain (judgement: the fourth is rarely the one)."""
_FAILURES = 2
"""Failures of one kind in a row."""
_TURNS = 3
"""Confirmed gains and losses that alternate."""

StuckKind = Literal["no-gain", "oscillating", "failing"]


class Stuck(NamedTuple):
    """Why work is stuck, and on what evidence."""

    kind: StuckKind
    because: str
    attempts: tuple[AttemptId, ...]
    """The newest ones that show it."""
    way_back: NextStep | None
    """Restores the best attempt; None where none was timed."""
    then: str
    """What to do after that."""

    @property
    def cure(self) -> str:
        """The way back as a shell command, and what to do then."""
        return self.format_cure(NextStep.as_command)

    def format_cure(self, format_step: Callable[[NextStep], str]) -> str:
        """Return the way back in a front end's own notation, and what to do then."""
        way_back = format_step(self.way_back) if self.way_back else "go back to the last good state"
        return f"{way_back}; then {self.then}"


def find_stuck(tree: AttemptTree) -> Stuck | None:
    """Return why the newest changes lead nowhere; None if they do not show it."""
    changed = [
        node
        for node in tree.nodes.values()
        if node.outcome is not None and node.attempt.parent is not None
    ]
    return (
        _find_failing(tree, changed)
        or _find_oscillation(tree, changed)
        or _find_no_gain(tree, changed)
    )


def _find_failing(tree: AttemptTree, changed: list[AttemptNode]) -> Stuck | None:
    newest = changed[-_FAILURES:]
    reasons = [
        one.outcome.why or "" for one in newest if one.outcome and one.outcome.result == "failed"
    ]
    if len(reasons) < _FAILURES or len({_shorten(reason) for reason in reasons}) > 1:
        return None
    return Stuck(
        "failing",
        f"the last {_FAILURES} changes failed in the same way: {reasons[-1]}",
        tuple(one.attempt.id for one in newest),
        _find_way_back(tree),
        "change less at once",
    )


def _shorten(reason: str) -> str:
    """Return the part of a reason that says what failed, without numbers."""
    return "".join(letter for letter in reason if not letter.isdigit())[:80]


def _find_oscillation(tree: AttemptTree, changed: list[AttemptNode]) -> Stuck | None:
    results = [(one, one.outcome.result) for one in changed if one.outcome]
    turns = [pair for pair in results if pair[1] in ("faster", "slower")][-_TURNS - 1 :]
    alternates = len(turns) > _TURNS and all(one[1] != other[1] for one, other in pairwise(turns))
    is_better = bool(turns) and tree.best in {one.attempt.id for one, _ in turns[-2:]}
    if not alternates or is_better:
        return None
    return Stuck(
        "oscillating",
        f"the last {len(turns)} changes made it faster and slower in turn, and none is the best",
        tuple(one.attempt.id for one, _ in turns),
        _find_way_back(tree),
        "profile it whole and take another class of change",
    )


def _find_no_gain(tree: AttemptTree, changed: list[AttemptNode]) -> Stuck | None:
    newest = changed[-_CHANGES:]
    gains = [one for one in newest if one.outcome and one.outcome.result == "faster"]
    if len(newest) < _CHANGES or gains:
        return None
    told = ", ".join(one.outcome.result for one in newest if one.outcome)
    return Stuck(
        "no-gain",
        f"the last {_CHANGES} changes gained nothing ({told})",
        tuple(one.attempt.id for one in newest),
        _find_way_back(tree),
        "profile it whole and take another class of change, or stop if the floor is near",
    )


def _find_way_back(tree: AttemptTree) -> NextStep | None:
    if tree.best is None:
        return None
    return describe_way_back(tree.nodes[tree.best].attempt.kernel)


def describe_way_back(kernel: str) -> NextStep:
    """Return the step that writes the best attempt at a kernel back."""
    return NextStep("restore", {"best": kernel}, "goes back to the best")


class AttemptLog(NamedTuple):
    """The attempts at a kernel."""

    kernel: str
    tree: AttemptTree
    total: int
    """All attempts; the tree holds the newest."""
    stuck: Stuck | None


class AdviceCheck(NamedTuple):
    """What was advised for a state, beside what came of the next one."""

    advised: AdvisedChange
    measured: float | None
    """Speedup of the next state; None where the two cannot be compared."""
    gain: GainVerdict | None
    """None where nothing was predicted, or nothing measured."""
    rule: FalsifierCheck | None
    """Whether what had to become true did; None unless both states were profiled."""


class AttemptDifference(NamedTuple):
    """What differs between two attempts."""

    before: AttemptNode
    after: AttemptNode
    source: list[str]
    """Lines of a unified diff."""
    flags: tuple[tuple[str, ...], tuple[str, ...]] | None
    """Compiler flags of both; None where they are equal."""
    comparison: PairwiseComparison | None
    """Of their newest benches; None where one was not timed on the same workload and device."""
    same_code: bool | None
    """Whether the machine code is the same; None where it is not known."""
    counts: dict[str, tuple[float, float]]
    """Instructions by kind, before and after, where they differ."""
    metrics: dict[str, tuple[float, float]]
    """Metrics of their newest profiles, before and after, where they differ by a tenth."""
    reports: ReportComparison | None
    """What changed by resource, stall and line; None unless both were profiled with counters."""
    advice: AdviceCheck | None = None
    """None where nothing was advised for the state before."""


class MeasuredDifference(NamedTuple):
    """What is known to differ between two measurements besides their times."""

    environment: dict[str, tuple[str, str]]
    """Device, judge, driver, compiler, torch and system, where they differ."""
    flags: tuple[tuple[str, ...], tuple[str, ...]] | None
    """Compiler flags of both; None where they are equal."""
    files: tuple[str, ...]
    """Files whose content differs, or that only one is made of."""
    builds: dict[str, tuple[float, float]]
    """Registers, spills and shared memory, where they differ."""
    attempts: AttemptDifference | None
    """Of the states that were measured; None where one is not kept, or they are the same."""


class RestoredAttempt(NamedTuple):
    """A state that was written back."""

    attempt: Attempt
    kept: AttemptId | None
    """The state that was there before, by its id; None if there was none, or the same."""
    written: tuple[str, ...]
    """Files that changed, by their path in the project."""
    flags_differ: bool
    """Whether kernel.yaml, which is not written, has other flags now."""
    unrecorded: str | None = None
    """Why the history has no entry of it."""
