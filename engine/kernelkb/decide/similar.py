"""Finds measured cases whose causes and time budget are near those of an answer. Pure.

Of the zoo's 163 changes that gained, each left out in turn, the fix that helped is among the three
cases shown for 107 (66 %). See ``benchmarks/similar_cases.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import exp, sqrt
from typing import NamedTuple

from kernelkb.decide.change_rows import MeasuredCaseRow
from kernelkb.model.answers.recommendation import Diagnosis, KernelFindings
from kernelkb.model.answers.report_facts import SimilarCase

_LEAST_CONFIDENCE = 0.3
_LATER_CAUSE = 0.5
"""Weight of a cause after the first, in a state."""
_CAUSE, _TIME = "cause:", "time:"


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
