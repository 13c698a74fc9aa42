"""Changes the order of advice by what was tried on the kernel before. Pure.

A fix that was tried while the same cause was found, without a gain, stands behind the others with
its reason; so does one that is applied already, and one that would undo a confirmed gain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kernelkb.model.answers.recommendation import Advice, Diagnosis
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


class ReorderedDiagnoses(NamedTuple):
    """Diagnoses in the order that the history of the kernel gives them."""

    diagnoses: list[Diagnosis]
    behind_count: int
    """Fixes that were put behind the others of their diagnosis."""


def reorder_by_history(
    diagnoses: Sequence[Diagnosis],
    tried: Sequence[TriedChange],
    undoes: Mapping[str, Collection[str]],
    helped: Mapping[str, str] = MappingProxyType({}),
) -> ReorderedDiagnoses:
    """Return diagnoses with their fixes and themselves in the order of what was tried.

    Args:
        diagnoses: Of an answer; they stay as they are.
        tried: Changes of the kernel, the oldest first; those that are guessed, or called something
            that nothing shows, do not count.
        undoes: By fix, the fixes that it undoes.
        helped: By fix, where it helped a kernel of the project like this one: it stands ahead.
    """
    known = [one for one in tried if one.outcome.fixes and one.outcome.recognised_by not in _OPEN]
    newest = {fix: one for one in known for fix in one.outcome.fixes}
    on_path = {fix: one for fix, one in newest.items() if one.on_path}
    gained = {fix: one for fix, one in on_path.items() if one.outcome.result == "faster"}
    ahead = helped.keys() - newest.keys()
    count = 0
    fresh, spent, others = list[Diagnosis](), list[Diagnosis](), list[Diagnosis]()
    for diagnosis in diagnoses:
        if diagnosis["verdict"] != "matches":
            others.append(diagnosis)
            continue
        judged = [
            _judge(fix["id"], diagnosis, newest, gained, undoes) for fix in diagnosis["fixes"]
        ]
        behind = {
            fix["id"] for fix, one in zip(diagnosis["fixes"], judged, strict=True) if one.is_refuted
        }
        told: list[Advice] = [
            {**fix, "tried": one.words or helped.get(fix["id"])}
            for fix, one in zip(diagnosis["fixes"], judged, strict=True)
        ]
        count += len(behind)
        is_spent = bool(told) and len(behind) == len(told)
        (spent if is_spent else fresh).append(_reorder({**diagnosis, "fixes": told}, behind, ahead))
    return ReorderedDiagnoses([*fresh, *spent, *others], count)


class _Judgement(NamedTuple):
    words: str | None
    """What is known of a fix; None: nothing."""
    is_refuted: bool
    """Whether it stands behind."""


def _judge(
    fix: str,
    diagnosis: Diagnosis,
    newest: Mapping[str, TriedChange],
    gained: Mapping[str, TriedChange],
    undoes: Mapping[str, Collection[str]],
) -> _Judgement:
    for other in sorted(undoes.get(fix, ())):
        if other in gained:
            return _Judgement(f"undoes {other}, {_describe(gained[other])}", is_refuted=True)
    one = newest.get(fix)
    if one is None:
        return _Judgement(None, is_refuted=False)
    outcome = one.outcome
    if outcome.result == "faster":
        if one.on_path:
            return _Judgement(f"applied already: {_describe(one)}", is_refuted=True)
        words = f"gained on another branch: {_describe(one)}; kb restore goes back there"
        return _Judgement(words, is_refuted=False)
    if outcome.result not in _REFUTED:
        return _Judgement(_describe(one), is_refuted=False)
    if outcome.bottleneck not in (None, diagnosis["bottleneck"]):
        words = f"{_describe(one)}, while {outcome.bottleneck} was found"
        return _Judgement(words, is_refuted=False)
    return _Judgement(_describe(one), is_refuted=True)


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


def _reorder(diagnosis: Diagnosis, behind: Collection[str], ahead: Collection[str]) -> Diagnosis:
    """Put fixes ahead and behind; the gain of the diagnosis is that of its first fix."""
    fixes = diagnosis["fixes"]
    if len(behind) == len(fixes):
        return diagnosis
    ordered = sorted(fixes, key=lambda fix: (fix["id"] in behind) - (fix["id"] in ahead))
    if ordered[0]["id"] == fixes[0]["id"]:
        return {**diagnosis, "fixes": ordered}
    gain = ordered[0]["predicted_speedup"]
    return {**diagnosis, "fixes": ordered, "predicted_speedup": gain, "learned": None}
