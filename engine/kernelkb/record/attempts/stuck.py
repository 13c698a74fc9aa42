"""Notices that work on a kernel is stuck, from its newest attempts. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal, NamedTuple

from kernelkb.errors import NextStep
from kernelkb.model.records.attempt import AttemptId
from kernelkb.record.attempts.tree import AttemptNode, AttemptTree

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
