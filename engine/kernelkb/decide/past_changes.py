"""Finds measured cases like an answer, and orders its fixes by what was tried before.

Of the zoo's 163 changes that gained, each left out in turn, the fix that helped is among the three
cases shown for 107 (66 %). See ``benchmarks/similar_cases.py``.

A fix that was tried while the same cause was found, without a gain, stands behind the others with
its reason; so does one that is applied already, and one that would undo a confirmed gain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import exp, sqrt
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.model.answers.recommendation import Advice, Diagnosis, KernelFindings, SimilarCase
from kernelkb.model.records.history import AttemptId, ChangeOutcome, ChangeResult, Recognition

if TYPE_CHECKING:
    from kernelkb.decide.rules import MeasuredCaseRow

_LEAST_CONFIDENCE = 0.3
_LATER_CAUSE = 0.5
"""Weight of a cause after the first, in a state."""
_CAUSE, _TIME = "cause:", "time:"

_REFUTED: tuple[ChangeResult, ...] = ("no-gain", "slower", "failed")
_OPEN: tuple[Recognition, ...] = ("guess", "unconfirmed")
"""Where it is open which fix the change applied."""
_ID_DIGITS = 4
_MAX_WHY = 80


class CaseWeights(NamedTuple):
    """How much a case counts. Chosen on the zoo's cases."""

    width: float = 0.4
    """Distance of two time budgets at which a vote falls to 1/e."""
    later: float = 0.3
    """Factor for a cause after the first."""
    same_told: float = 0.7
    """Least vote of a case for which the same first cause was told."""
    no_cause: float = 0.05
    """Vote of a case that shares no cause."""


_CHOSEN = CaseWeights()


class Vote(NamedTuple):
    """A measured case and how much it counts, 0 to 1."""

    weight: float
    case: MeasuredCaseRow


def vectorize_answer(answer: KernelFindings) -> dict[str, float]:
    """Return the causes and the time budget of an answer as one vector."""
    found: dict[str, float] = {}
    for at, one in enumerate(_list_matches(answer)):
        weight = 1.0 if at == 0 else _LATER_CAUSE
        found[_CAUSE + one["bottleneck"]] = weight * max(one["confidence"], _LEAST_CONFIDENCE)
    for part in answer["time"]:
        found[_TIME + part["part"]] = part["share"]
    return found


def find_similar_cases(
    answer: KernelFindings,
    cases: Sequence[MeasuredCaseRow],
    count: int,
    *,
    without: Collection[str] = (),
) -> list[SimilarCase]:
    """Return the nearest cases in which a change gained, one of each kernel.

    Another fix for the same cause stands before the same fix again, and both before a case that
    counts no more than one that shares no cause.

    Args:
        answer: With the parts of the time: without a profile, nothing is near.
        cases: Measured ones.
        count: Most of them.
        without: Kernels that do not count.
    """
    if not answer["time"]:
        return []
    votes = weigh_cases(answer, cases, without=without)
    first: list[MeasuredCaseRow] = []
    again: list[MeasuredCaseRow] = []
    far: list[MeasuredCaseRow] = []
    fixes: set[str] = set()
    for vote in votes:
        if vote.weight <= _CHOSEN.no_cause:
            far.append(vote.case)
        elif vote.case["fix"] in fixes:
            again.append(vote.case)
        else:
            fixes.add(vote.case["fix"])
            first.append(vote.case)
    return [_describe_case(case) for case in [*first, *again, *far][:count]]


def weigh_cases(
    answer: KernelFindings,
    cases: Sequence[MeasuredCaseRow],
    weights: CaseWeights = _CHOSEN,
    *,
    without: Collection[str] = (),
) -> list[Vote]:
    """Return the vote of the nearest case of each kernel, the largest first.

    It is the share of the cause that the case shares with the answer, times the nearness of the
    time budgets.
    """
    told = [one["bottleneck"] for one in _list_matches(answer)]
    here = {_TIME + part["part"]: part["share"] for part in answer["time"]}
    votes = []
    for case in cases:
        if case["kernel"] not in without and case["state"]:
            distance = _measure_distance(here, case["state"])
            weight = _weigh_cause(case, told, weights) * exp(-distance / weights.width)
            votes.append(Vote(weight, case))
    votes.sort(key=lambda one: (-one.weight, one.case["kernel"]))
    nearest: dict[str, Vote] = {}
    for vote in votes:
        nearest.setdefault(vote.case["kernel"], vote)
    return list(nearest.values())


def _weigh_cause(case: MeasuredCaseRow, told: Sequence[str], weights: CaseWeights) -> float:
    """Return 1 if the case was cured of the first cause told, and less for others."""
    weight = weights.no_cause
    if case["bottleneck"] in told:
        weight = 1.0 if case["bottleneck"] == told[0] else weights.later
    if told and _find_told_cause(case["state"]) == told[0]:
        weight = max(weight, weights.same_told)
    return weight


def _find_told_cause(state: Mapping[str, float]) -> str | None:
    causes = [(-value, name) for name, value in state.items() if name.startswith(_CAUSE)]
    return min(causes)[1].removeprefix(_CAUSE) if causes else None


def _list_matches(answer: KernelFindings) -> list[Diagnosis]:
    return [one for one in answer["diagnoses"] if one["verdict"] == "matches"]


def _measure_distance(here: Mapping[str, float], state: Mapping[str, float]) -> float:
    """Return the Euclidean distance of two time budgets."""
    keys = here.keys() | {name for name in state if name.startswith(_TIME)}
    return sqrt(sum((here.get(key, 0.0) - state.get(key, 0.0)) ** 2 for key in keys))


def _describe_case(case: MeasuredCaseRow) -> SimilarCase:
    return {
        "kernel": case["kernel"],
        "operation": case["operation"],
        "device": case["device"],
        "bottleneck": case["bottleneck"],
        "fix": case["fix"],
        "speedup": case["speedup"],
    }


class TriedChange(NamedTuple):
    """A change that was made to the kernel before."""

    attempt: AttemptId
    day: str
    """Such as ``21 Nov``; an imported one says so."""
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
        words = f"gained on another branch: {_describe(one)}; kb lab restore goes back there"
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
