"""Sessions → what they teach. Arithmetic that a person can check; nothing is read or written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kernelkb.model.base import GainKind
from kernelkb.model.learned import Learned, LearnedFix, LearnedPhase
from kernelkb.model.session import Session
from kernelkb.model.threshold import Realised
from kernelkb.record.intervals import Weighted, next_minutes, next_share, wilson
from kernelkb.record.learning_cases import Case, KindOf, cases_of
from kernelkb.record.phases import minutes_of

_DIGITS = 4


class PhaseTime(NamedTuple):
    """How long one phase took in one session."""

    session: str
    phase: str
    minutes: float


def learned(
    sessions: Sequence[Session],
    realised: Mapping[GainKind, Realised],
    kind_of: KindOf,
    forgotten: Iterable[str] = (),
) -> Learned:
    """Return what sessions teach, whatever their order.

    Args:
        sessions: All there are. Those that only report somebody's account count nothing.
        realised: What calibration.yaml takes for granted, by kind of gain.
        kind_of: See ``cases.KindOf``.
        forgotten: Sessions to leave out, as if they had never been.
    """
    out = frozenset(forgotten)
    counted = [s for s in sessions if s.kind == "recorded" and s.session not in out]
    cases = [case for one in counted for case in cases_of(one, realised, kind_of)]
    times = [
        PhaseTime(one.session, phase, minutes)
        for one in counted
        for phase, minutes in minutes_of(one).items()
    ]
    found = taught(cases, times, realised)
    names = tuple(sorted(one.session for one in counted))
    return found.model_copy(update={"sessions": names, "forgotten": tuple(sorted(out))})


def taught(
    cases: Iterable[Case],
    times: Iterable[PhaseTime],
    realised: Mapping[GainKind, Realised],
) -> Learned:
    """Return what cases and times teach, wherever they come from: sessions, or a replay."""
    by_fix: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        by_fix.setdefault((case.architecture, case.bottleneck, case.fix), []).append(case)
    by_phase: dict[str, list[PhaseTime]] = {}
    for time in times:
        by_phase.setdefault(time.phase, []).append(time)
    return Learned(
        fixes=tuple(_fix(found, realised[found[0].kind]) for _, found in sorted(by_fix.items())),
        phases=tuple(_phase(found) for _, found in sorted(by_phase.items())),
    )


def _fix(cases: list[Case], prior: Realised) -> LearnedFix:
    first = cases[0]
    shares = [Weighted(case.share, case.weight) for case in cases if case.share is not None]
    found = next_share(prior.usual, shares)
    outcomes = [case.succeeded for case in cases if case.succeeded is not None]
    falsifiers = [case.falsifier for case in cases if case.falsifier is not None]
    return LearnedFix(
        fix=first.fix,
        bottleneck=first.bottleneck,
        architecture=first.architecture,
        kind=first.kind,
        prior=prior.usual,
        observed=None if found.observed is None else round(found.observed, _DIGITS),
        calibration=round(found.calibration, _DIGITS),
        interval=_rounded(found.interval),
        count=round(found.cases, _DIGITS),
        tried=len(cases),
        measured=len(outcomes),
        succeeded=sum(outcomes),
        success_interval=_rounded(wilson(sum(outcomes), len(outcomes))),
        falsifier_held=sum(falsifiers),
        falsifier_failed=len(falsifiers) - sum(falsifiers),
        sessions=tuple(sorted({case.session for case in cases})),
    )


def _phase(times: list[PhaseTime]) -> LearnedPhase:
    low, point, high = next_minutes([time.minutes for time in times])
    return LearnedPhase(
        phase=times[0].phase,
        count=len(times),
        minutes=(round(low, _DIGITS), round(point, _DIGITS), round(high, _DIGITS)),
        sessions=tuple(sorted({time.session for time in times})),
    )


def _rounded(interval: tuple[float, float]) -> tuple[float, float]:
    low, high = interval
    return round(low, _DIGITS), round(high, _DIGITS)
