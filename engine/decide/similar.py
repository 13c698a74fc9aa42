"""Finds measured cases whose causes and time budget are near those of an answer. Pure.

Of the zoo's 163 changes that gained, each left out in turn, the fix that helped is among the first
two for 65 %; for 73 % of the 137 whose fix helped any other kernel (benchmarks/similar_cases.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import exp, log, sqrt

from kernelkb.decide.change_rows import MeasuredCaseRow
from kernelkb.model.recommendation import KernelAnswer
from kernelkb.model.report_facts import SimilarCase

_LEAST_CONFIDENCE = 0.3
_LATER_CAUSE = 0.5
"""Weight of a cause after the first."""
_WIDTH = 0.15
_OWN_WEIGHT = 3.0
_OPERATION_BONUS = 0.3
_VOTERS = 12
_FULL_GAIN = 0.5
"""Logarithm of the speedup from which on a case has a whole vote. These six were chosen on the
zoo's cases, each left out in turn."""
_OUTSIDE = 0.2
"""Vote for a fix that the answer itself does not name."""


def vectorize_answer(answer: KernelAnswer) -> dict[str, float]:
    """Return the causes and the time budget of an answer as one vector."""
    found: dict[str, float] = {}
    matches = [one for one in answer["diagnoses"] if one["verdict"] == "matches"]
    for at, one in enumerate(matches):
        weight = 1.0 if at == 0 else _LATER_CAUSE
        found[f"cause:{one['bottleneck']}"] = weight * max(one["confidence"], _LEAST_CONFIDENCE)
    for part in answer["time"]:
        found[f"time:{part['part']}"] = part["share"]
    return found


def find_similar_cases(
    answer: KernelAnswer,
    cases: Sequence[MeasuredCaseRow],
    count: int,
    *,
    operation: str | None = None,
    without: Collection[str] = (),
) -> list[SimilarCase]:
    """Return the nearest cases in which a change gained, one of each kernel.

    Args:
        answer: With the parts of the time: without a profile, nothing is near.
        cases: Measured ones.
        count: Most of them.
        operation: What the kernel computes, if it is known.
        without: Kernels that do not count.
    """
    if not answer["time"]:
        return []
    near = _sort_by_distance(answer, cases, operation, without)
    found: dict[str, SimilarCase] = {}
    for _, case in near:
        if len(found) == count:
            break
        found.setdefault(
            case["kernel"],
            {
                "kernel": case["kernel"],
                "operation": case["operation"],
                "device": case["device"],
                "bottleneck": case["bottleneck"],
                "fix": case["fix"],
                "speedup": case["speedup"],
            },
        )
    return list(found.values())


def rank_by_neighbours(
    answer: KernelAnswer,
    cases: Sequence[MeasuredCaseRow],
    *,
    operation: str | None = None,
    without: Collection[str] = (),
) -> list[str]:
    """Return fixes in the order in which the nearest cases and the answer speak for them."""
    own = _weigh_own_fixes(answer)
    votes: dict[str, float] = {}
    seen: set[str] = set()
    for distance, case in _sort_by_distance(answer, cases, operation, without)[:_VOTERS]:
        if case["kernel"] not in seen:
            seen.add(case["kernel"])
            gain = min(1.0, log(case["speedup"]) / _FULL_GAIN)
            vote = exp(-distance / _WIDTH) * gain
            votes[case["fix"]] = votes.get(case["fix"], 0.0) + vote
    scores = {
        fix: vote * (1 + _OWN_WEIGHT * own[fix] if fix in own else _OUTSIDE)
        for fix, vote in votes.items()
    }
    for fix, weight in own.items():
        scores[fix] = scores.get(fix, 0.0) + 0.02 * weight
    return sorted(scores, key=lambda fix: (-scores[fix], fix))


def _weigh_own_fixes(answer: KernelAnswer) -> dict[str, float]:
    weights: dict[str, float] = {}
    matches = [one for one in answer["diagnoses"] if one["verdict"] == "matches"]
    for at, one in enumerate(matches[:4]):
        for place, fix in enumerate(one["fixes"]):
            weights.setdefault(fix["id"], 1 / (1 + at) / (1 + 0.5 * place))
    return weights


def _sort_by_distance(
    answer: KernelAnswer,
    cases: Sequence[MeasuredCaseRow],
    operation: str | None,
    without: Collection[str],
) -> list[tuple[float, MeasuredCaseRow]]:
    here = vectorize_answer(answer)
    found = []
    for case in cases:
        if case["kernel"] not in without and case["state"]:
            bonus = _OPERATION_BONUS if operation == case["operation"] else 0.0
            found.append((_measure_distance(here, case["state"]) - bonus, case))
    return sorted(found, key=lambda one: (one[0], one[1]["kernel"]))


def _measure_distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    keys = one.keys() | other.keys()
    return sqrt(sum((one.get(key, 0.0) - other.get(key, 0.0)) ** 2 for key in keys))
