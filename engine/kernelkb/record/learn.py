"""Learns gains, phase times and pattern candidates from sessions, by simple arithmetic. No I/O.

Only changes that a recorded session applied and measured are evidence. The rules:

- A reported session gives no case.
- A change without a measured speedup, because the bench was disturbed, counts only as tried.
- The realised share is ``calibration × measured gain ÷ predicted gain``, where a gain is the
  logarithm of the speedup, so that 3x instead of 9x is half. A slow-down has a negative gain.
- Several fixes in one variant share its measured gain. It is compared with the sum of what they
  were predicted to gain, and counts as 1/k of a case for each of k.
- A falsifier counts only if it was false before the change; older records do not tell.
- A prediction of an older version, by estimators that are gone, gives no share.
- A predicted gain below 0.05 (1.05x) is smaller than the noise between benches, so the share is
  unknown; the success and the falsifier still count.
- The share of one case is clipped to −1 … 2: further gain or loss has another cause.
- The same kernel, variant and diagnosis measured again in one session replaces the earlier case,
  so that repeating a measurement adds no weight.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from kernelkb.model.entries.learned import PRIOR_SHARE, LearnedCatalogue, LearnedFix, LearnedPhase
from kernelkb.model.records.session import Decision, Session, SessionEntry
from kernelkb.record.intervals import (
    WeightedShare,
    clip_share,
    predict_minutes,
    predict_share,
    wilson_interval,
)
from kernelkb.record.outcomes import sum_minutes_by_phase

MIN_GAIN = 0.05
"""Logarithm of the predicted speedup below which the realised share of a case is unknown."""

IsKnown: TypeAlias = Callable[[str, str], bool]
"""Whether the knowledge has a bottleneck and a fix."""

_DIGITS = 4

MIN_SESSIONS = 3
"""Least number of sessions in which a sequence has to occur."""

_FALSIFIER_TEXT = {True: ", falsifier held", False: ", falsifier failed", None: ""}


class LearningCase(NamedTuple):
    """One applied change, with its realised share of the predicted gain."""

    session: str
    bottleneck: str
    fix: str
    architecture: str
    """``sm_90``, or ``cpu``."""
    share: float | None = None
    """Realised share of the predicted gain, −1 to 2; None where it is unknown."""
    weight: float = 1.0
    """1/k for k fixes applied together."""
    succeeded: bool | None = None
    """Whether the whole interval of the speedup lies above 1; None when it was not measured."""
    falsifier_held: bool | None = None
    """Whether the falsifier's comparison became true; None when not measured."""


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


def extract_cases(session: Session, is_known: IsKnown) -> list[LearningCase]:
    """Return the cases of a recorded session; a reported one has none."""
    cases: dict[tuple[str, ...], LearningCase] = {}
    for entry in session.entries if session.kind == "recorded" else ():
        for variant, case in _extract_entry_cases(session.session, entry, is_known):
            diagnosis = (case.bottleneck, case.fix, case.architecture)
            key = (entry.kernel or session.kernel or "", variant, *diagnosis)
            if key not in cases or case.succeeded is not None:
                cases[key] = case
    return list(cases.values())


def find_architecture(entry: SessionEntry) -> str | None:
    """Return ``cpu`` or ``sm_90``; None when the entry has no compute capability."""
    if entry.target == "cpu":
        return "cpu"
    return f"sm_{entry.cc.replace('.', '')}" if entry.cc else None


def _extract_entry_cases(
    session: str,
    entry: SessionEntry,
    is_known: IsKnown,
) -> Iterator[tuple[str, LearningCase]]:
    architecture = find_architecture(entry)
    if architecture is None:
        return
    by_variant: dict[str, list[Decision]] = {}
    for decision in entry.decisions:
        if decision.applied_as is not None:
            by_variant.setdefault(decision.applied_as, []).append(decision)
    for variant, decisions in by_variant.items():
        for decision in decisions:
            if is_known(decision.bottleneck, decision.fix):
                case = LearningCase(session, decision.bottleneck, decision.fix, architecture)
                yield variant, _add_measurement(case, decision, decisions)


def _add_measurement(
    case: LearningCase, decision: Decision, decisions: Sequence[Decision]
) -> LearningCase:
    """Add the measured gain of a decision, if it has one."""
    speedup = decision.measured
    if speedup is None or speedup <= 0 or decision.interval is None:
        return case
    fixes = {fix for other in decisions for fix in (other.fix, *other.together)}
    return case._replace(
        share=_realized_share(decision, decisions, math.log(speedup)),
        weight=1 / len(fixes),
        succeeded=decision.interval[0] > 1,
        falsifier_held=decision.falsifier_held if decision.falsifier_could_fail else None,
    )


def _realized_share(
    decision: Decision, decisions: Sequence[Decision], measured: float
) -> float | None:
    calibration = PRIOR_SHARE if decision.calibration is None else decision.calibration
    if decision.predicted is None or decision.predicted_by is None or calibration <= 0:
        return None
    if _predicted_gain(decision) / calibration < MIN_GAIN:
        return None
    best: dict[str, float] = {}
    for other in decisions:
        best[other.fix] = max(best.get(other.fix, 0.0), _predicted_gain(other))
    return clip_share(calibration * measured / math.fsum(best.values()))


def _predicted_gain(decision: Decision) -> float:
    """Return the logarithm of the predicted speedup, at least 0."""
    return math.log(max(1.0, decision.predicted[1])) if decision.predicted else 0.0


class LearnedChange(NamedTuple):
    """One changed number of the learned catalogue."""

    what: str
    """Name of the row: ``fix for bottleneck on architecture``, or ``phase NAME``."""
    number: str
    """Name of the changed field."""
    old: object
    """None if the row is new."""
    new: object
    """None if the row was removed."""
    sessions: tuple[str, ...]
    """Sessions that the new row is computed from; for a removed row, those of the old one."""


def diff_learned(old: LearnedCatalogue, new: LearnedCatalogue) -> tuple[LearnedChange, ...]:
    """Return every changed number, row by row in the order of ``new``, removed rows last."""
    before, after = _rows_by_name(old), _rows_by_name(new)
    names = [*after, *(name for name in before if name not in after)]
    return tuple(
        change for name in names for change in _diff_row(name, before.get(name), after.get(name))
    )


def _rows_by_name(learned: LearnedCatalogue) -> dict[str, LearnedFix | LearnedPhase]:
    fixes = {f"{f.fix} for {f.bottleneck} on {f.architecture}": f for f in learned.fixes}
    return {**fixes, **{f"phase {p.phase}": p for p in learned.phases}}


def _diff_row(
    name: str, old: LearnedFix | LearnedPhase | None, new: LearnedFix | LearnedPhase | None
) -> Iterator[LearnedChange]:
    row = new or old
    for field in type(row).model_fields if row else ():
        before, after = getattr(old, field, None), getattr(new, field, None)
        shown = not isinstance(before if new is None else after, str)  # text fields are in ``what``
        if before != after and shown and field != "sessions":
            yield LearnedChange(name, field, before, after, row.sessions if row else ())


class PatternCandidate(NamedTuple):
    """A sequence that occurred in several sessions."""

    kind: str
    """``cure``: a diagnosis, its fix and the outcome; ``failure``: a failed step with its cure;
    ``detour``: a failed step, and the next step that succeeded."""
    says: str
    """The sequence as text, such as ``bottleneck -> fix -> faster``."""
    sessions: tuple[str, ...]


def find_pattern_candidates(sessions: Sequence[Session]) -> tuple[PatternCandidate, ...]:
    """Return the sequences of at least ``MIN_SESSIONS`` recorded sessions, the most frequent first.

    A sequence counts once per session, even if it occurred there several times.
    """
    seen: dict[tuple[str, str], set[str]] = {}
    for session in sessions:
        if session.kind == "recorded":
            for entry in session.entries:
                for key in (*_iter_fix_outcomes(entry), *_iter_failures(entry)):
                    seen.setdefault(key, set()).add(session.session)
    candidates = [
        PatternCandidate(kind, says, tuple(sorted(names)))
        for (kind, says), names in seen.items()
        if len(names) >= MIN_SESSIONS
    ]
    return tuple(sorted(candidates, key=lambda one: (-len(one.sessions), one.kind, one.says)))


def _iter_fix_outcomes(entry: SessionEntry) -> Iterator[tuple[str, str]]:
    for decision in entry.decisions:
        if decision.applied_as is None or decision.interval is None:
            continue
        low, high = decision.interval
        outcome = "faster" if low > 1 else "slower" if high < 1 else "no difference"
        falsifier = _FALSIFIER_TEXT[decision.falsifier_held]
        yield "cure", f"{decision.bottleneck} -> {decision.fix} -> {outcome}{falsifier}"


def _iter_failures(entry: SessionEntry) -> Iterator[tuple[str, str]]:
    for at, step in enumerate(entry.steps):
        if step.status != "failure":
            continue
        if step.cure:
            yield "failure", f"{step.name}: {_normalize_message(step.found)} -> {step.cure}"
        following = next((s for s in entry.steps[at + 1 :] if s.status == "ok"), None)
        if following and following.name != step.name:
            yield "detour", f"{step.name} failed -> {following.name} went on"


def _normalize_message(text: str) -> str:
    """Return the first line without numbers and paths, so that equal failures count together."""
    first = text.splitlines()[0] if text else ""
    placeless = re.sub(r"(?<!\S)\S*/\S+", "…", first)
    return re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "N", placeless)[:160]
