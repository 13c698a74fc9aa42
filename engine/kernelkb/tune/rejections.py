"""Analyses the trials of a search: why configurations were rejected, and how fast it converged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from kernelkb.model.kernels.tuning import TuningTrial
from kernelkb.model.records.tuning_outcome import ConvergencePoint, Rejection, ValueConcentration

_STAGES = {"build-failed": 0, "same-code": 1, "spills": 1, "unloadable": 2}
"""The gate at which a status ends a trial; the others end it at the last one, on the device."""
_LAST_STAGE = 3
_MIN_REJECTED = 3
"""Fewer rejections at a value may be chance."""
_MAX_PROBABILITY = 0.01
"""That so many fall on a value by chance: Fisher's exact test, times the values that are tested."""
_MIN_RATIO = 2.0
"""Least share of rejections at a value, over that at the other values of its tunable."""
_MAX_CONCENTRATIONS = 3
_WITHIN = (0.05, 0.01, 0.0)


def analyse_rejections(trials: Sequence[TuningTrial]) -> tuple[Rejection, ...]:
    """Return the trials that were not timed by reason, each with the values that concentrate it.

    A trial that an earlier gate rejected says nothing about a later one, and does not count there.

    Args:
        trials: All of a search.
    """
    counts = Counter(one.status for one in trials if one.status != "timed")
    return tuple(_describe(trials, status, count) for status, count in counts.most_common())


def _describe(trials: Sequence[TuningTrial], status: str, count: int) -> Rejection:
    stage = _STAGES.get(status, _LAST_STAGE)
    reached = [one for one in trials if _STAGES.get(one.status, _LAST_STAGE) >= stage]
    details = Counter(one.detail for one in trials if one.status == status and one.detail)
    return Rejection(
        status=status,
        count=count,
        share=count / len(trials),
        reached_count=len(reached),
        example=details.most_common(1)[0][0] if details else None,
        concentrations=tuple(_find_concentrations(reached, status)),
    )


class _Candidate(NamedTuple):
    """A value with its probability first, so that the least likely one is the smallest."""

    probability: float
    tunable: str
    value: int
    rejected_count: int
    reached_count: int


def _find_concentrations(reached: Sequence[TuningTrial], status: str) -> list[ValueConcentration]:
    """Return the values that stand out, the least likely first; each explains trials of its own.

    Tunables depend on each other by the constraints, so that a value often stands out only because
    it comes with another. Hence the trials of a value that was found are left out for the next.
    """
    found: list[ValueConcentration] = []
    left = list(reached)
    while len(found) < _MAX_CONCENTRATIONS:
        best = min(_list_candidates(left, status), default=None)
        if best is None or best.probability > _MAX_PROBABILITY:
            break
        _, tunable, value, rejected_count, reached_count = best
        found.append(
            ValueConcentration(
                tunable=tunable,
                value=value,
                rejected_count=rejected_count,
                reached_count=reached_count,
            )
        )
        left = [one for one in left if one.configuration.get(tunable) != value]
    return found


def _list_candidates(reached: Sequence[TuningTrial], status: str) -> list[_Candidate]:
    from scipy.stats import hypergeom

    totals: Counter[tuple[str, int]] = Counter()
    rejected: Counter[tuple[str, int]] = Counter()
    for trial in reached:
        totals.update(trial.configuration.items())
        if trial.status == status:
            rejected.update(trial.configuration.items())
    values: dict[str, int] = defaultdict(int)
    for tunable, _ in totals:
        values[tunable] += 1
    tested = [one for one in totals if values[one[0]] > 1]
    all_count = len(reached)
    all_rejected = sum(one.status == status for one in reached)
    candidates = []
    for tunable, value in tested:
        hits, count = rejected[tunable, value], totals[tunable, value]
        elsewhere = (all_rejected - hits) / (all_count - count)
        if hits < _MIN_REJECTED or hits / count < _MIN_RATIO * elsewhere:
            continue
        chance = float(hypergeom.sf(hits - 1, all_count, all_rejected, count)) * len(tested)
        candidates.append(_Candidate(chance, tunable, value, hits, count))
    return candidates


def measure_convergence(trials: Sequence[TuningTrial]) -> tuple[ConvergencePoint, ...]:
    """Return after how many trials a time within 5 %, within 1 % and the best itself was found.

    Args:
        trials: In the order in which they ended.
    """
    best_us = min((one.time_us for one in trials if one.time_us), default=None)
    if best_us is None:
        return ()
    points = []
    for within in _WITHIN:
        limit = best_us * (1 + within)
        at = next(i for i, one in enumerate(trials) if one.time_us and one.time_us <= limit)
        device_s = sum(one.trial_s for one in trials[: at + 1])
        points.append(
            ConvergencePoint(within=within, trial_count=at + 1, device_s=round(device_s, 3))
        )
    return tuple(points)
