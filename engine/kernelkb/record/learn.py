"""Learns calibrated gains of fixes and phase times from sessions, by simple arithmetic. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kernelkb.model.entries.learned import PRIOR_SHARE, LearnedCatalogue, LearnedFix, LearnedPhase
from kernelkb.model.records.session import Session
from kernelkb.record.intervals import WeightedShare, predict_minutes, predict_share, wilson_interval
from kernelkb.record.learning_cases import IsKnown, LearningCase, extract_cases
from kernelkb.record.phases import sum_minutes_by_phase

_DIGITS = 4


class PhaseDuration(NamedTuple):
    """The minutes that one phase took in one session."""

    session: str
    phase: str
    minutes: float


def learn_from_sessions(
    sessions: Sequence[Session],
    is_known: IsKnown,
    forgotten: Iterable[str] = (),
) -> LearnedCatalogue:
    """Return the learned gains and phase times; the order of the sessions does not matter.

    Args:
        sessions: All sessions. Reported sessions, which were not measured here, do not count.
        is_known: Whether the knowledge still has a bottleneck and a fix.
        forgotten: Ids of sessions to leave out, as if they did not exist.
    """
    out = frozenset(forgotten)
    counted = [s for s in sessions if s.kind == "recorded" and s.session not in out]
    cases = [case for one in counted for case in extract_cases(one, is_known)]
    times = [
        PhaseDuration(one.session, phase, minutes)
        for one in counted
        for phase, minutes in sum_minutes_by_phase(one).items()
    ]
    found = learn_from_cases(cases, times)
    names = tuple(sorted(one.session for one in counted))
    return found.model_copy(update={"sessions": names, "forgotten": tuple(sorted(out))})


def learn_from_cases(
    cases: Iterable[LearningCase],
    times: Iterable[PhaseDuration],
) -> LearnedCatalogue:
    """Return the learned gains and phase times from cases and times, of sessions or of a replay."""
    by_fix: dict[tuple[str, str, str], list[LearningCase]] = {}
    for case in cases:
        by_fix.setdefault((case.architecture, case.bottleneck, case.fix), []).append(case)
    by_phase: dict[str, list[PhaseDuration]] = {}
    for time in times:
        by_phase.setdefault(time.phase, []).append(time)
    return LearnedCatalogue(
        fixes=tuple(_learn_fix(found) for _, found in sorted(by_fix.items())),
        phases=tuple(_learn_phase(found) for _, found in sorted(by_phase.items())),
    )


def _learn_fix(cases: list[LearningCase]) -> LearnedFix:
    first = cases[0]
    shares = [WeightedShare(case.share, case.weight) for case in cases if case.share is not None]
    found = predict_share(PRIOR_SHARE, shares)
    outcomes = [case.succeeded for case in cases if case.succeeded is not None]
    falsifiers = [case.falsifier_held for case in cases if case.falsifier_held is not None]
    return LearnedFix(
        fix=first.fix,
        bottleneck=first.bottleneck,
        architecture=first.architecture,
        observed=None if found.observed_mean is None else round(found.observed_mean, _DIGITS),
        calibration=round(found.calibration, _DIGITS),
        interval=_round_interval(found.interval),
        count=round(found.case_count, _DIGITS),
        tried=len(cases),
        measured=len(outcomes),
        succeeded=sum(outcomes),
        success_interval=_round_interval(wilson_interval(sum(outcomes), len(outcomes))),
        falsifier_held=sum(falsifiers),
        falsifier_failed=len(falsifiers) - sum(falsifiers),
        sessions=tuple(sorted({case.session for case in cases})),
    )


def _learn_phase(times: list[PhaseDuration]) -> LearnedPhase:
    low, point, high = predict_minutes([time.minutes for time in times])
    return LearnedPhase(
        phase=times[0].phase,
        count=len(times),
        minutes=(round(low, _DIGITS), round(point, _DIGITS), round(high, _DIGITS)),
        sessions=tuple(sorted({time.session for time in times})),
    )


def _round_interval(interval: tuple[float, float]) -> tuple[float, float]:
    low, high = interval
    return round(low, _DIGITS), round(high, _DIGITS)
