"""Changes the order of advice by what was tried on the kernel before. Pure.

A fix that was tried while the same cause was found, without a gain, stands behind the others with
its reason; so does one that is applied already, and one that would undo a confirmed gain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kernelkb.model.answers.recommendation import Advice, Diagnosis, KernelAnswer
from kernelkb.model.records.attempt import AttemptId, ChangeOutcome, ChangeResult, Recognition

_REFUTED: tuple[ChangeResult, ...] = ("no-gain", "slower", "failed")
_OPEN: tuple[Recognition, ...] = ("guess", "unconfirmed")
"""Where it is open which fix the change applied."""
_ID_DIGITS = 4
_MAX_WHY = 80


class TriedChange(NamedTuple):
    """A change that was made to the kernel before."""

    attempt: AttemptId
    day: str
    """Such as ``21 Nov``."""
    outcome: ChangeOutcome
    on_path: bool
    """Whether the state of now comes from it."""


def remember_changes(
    answer: KernelAnswer,
    tried: Sequence[TriedChange],
    undoes: Mapping[str, Collection[str]],
    helped: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Reorder the fixes and diagnoses of an answer; return how many fixes were put behind.

    Args:
        answer: The answer, which is changed.
        tried: Changes of the kernel, the oldest first; those that are guessed, or called something
            that nothing shows, do not count.
        undoes: By fix, the fixes that it undoes.
        helped: By fix, where it helped a kernel of the project like this one: it stands ahead.
    """
    known = [one for one in tried if one.outcome.fixes and one.outcome.recognised_by not in _OPEN]
    newest = {fix: one for one in known for fix in one.outcome.fixes}
    gained = {
        fix: one for fix, one in newest.items() if one.outcome.result == "faster" and one.on_path
    }
    count = 0
    spent: set[int] = set()
    for diagnosis in answer["diagnoses"]:
        if diagnosis["verdict"] != "matches" or not diagnosis["fixes"]:
            continue
        behind = set()
        for fix in diagnosis["fixes"]:
            fix["tried"], is_refuted = _judge(fix["id"], diagnosis, newest, gained, undoes)
            if is_refuted:
                behind.add(fix["id"])
            elif fix["tried"] is None and fix["id"] in helped:
                fix["tried"] = helped[fix["id"]]
        count += len(behind)
        _reorder(diagnosis, behind, helped.keys() - newest.keys())
        if len(behind) == len(diagnosis["fixes"]):
            spent.add(id(diagnosis))
    if spent:
        answer["diagnoses"] = _put_behind(answer["diagnoses"], spent)
    return count


def _judge(
    fix: str,
    diagnosis: Diagnosis,
    newest: Mapping[str, TriedChange],
    gained: Mapping[str, TriedChange],
    undoes: Mapping[str, Collection[str]],
) -> tuple[str | None, bool]:
    """Return what is known of a fix, in words, and whether it stands behind."""
    for other in sorted(undoes.get(fix, ())):
        if other in gained:
            return f"undoes {other}, {_describe(gained[other])}", True
    one = newest.get(fix)
    if one is None:
        return None, False
    outcome = one.outcome
    if outcome.result == "faster":
        if one.on_path:
            return f"applied already: {_describe(one)}", True
        return f"gained on another branch: {_describe(one)}; kb restore goes back there", False
    if outcome.result not in _REFUTED:
        return _describe(one), False
    if outcome.bottleneck not in (None, diagnosis["bottleneck"]):
        return f"{_describe(one)}, while {outcome.bottleneck} was found", False
    return _describe(one), True


def _describe(one: TriedChange) -> str:
    """Return when a change was tried and what it gave: ``tried 21 Nov as 3f2a: 0.97x [..]``."""
    outcome = one.outcome
    words = f"tried {one.day} as {one.attempt[:_ID_DIGITS]}"
    if outcome.measured is not None and outcome.interval is None:
        return f"{words}: about {outcome.measured:.3g}x, {outcome.result}"
    if outcome.measured is None or outcome.interval is None:
        return f"{words}: {outcome.result}, {(outcome.why or 'not compared')[:_MAX_WHY]}"
    low, high = outcome.interval
    return f"{words}: {outcome.measured:.3g}x [{low:.3g}, {high:.3g}], {outcome.result}"


def _reorder(diagnosis: Diagnosis, behind: Collection[str], ahead: Collection[str]) -> None:
    """Put fixes ahead and behind; the gain of the diagnosis is that of its first fix."""
    fixes: list[Advice] = diagnosis["fixes"]
    if len(behind) == len(fixes):
        return
    first = fixes[0]["id"]
    diagnosis["fixes"] = sorted(fixes, key=lambda fix: (fix["id"] in behind) - (fix["id"] in ahead))
    if diagnosis["fixes"][0]["id"] != first:
        diagnosis["predicted_speedup"] = diagnosis["fixes"][0]["predicted_speedup"]
        diagnosis["learned"] = None


def _put_behind(diagnoses: Sequence[Diagnosis], spent: Collection[int]) -> list[Diagnosis]:
    """Put diagnoses whose fixes are all spent behind the other matches."""
    matches = [one for one in diagnoses if one["verdict"] == "matches"]
    others = [one for one in diagnoses if one["verdict"] != "matches"]
    return [*sorted(matches, key=lambda one: id(one) in spent), *others]
