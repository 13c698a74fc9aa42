"""Extracts learning cases from sessions: predicted and measured gain of each applied change.

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
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from kernelkb.model.entries.learned import PRIOR_SHARE
from kernelkb.model.records.session import Decision, Session, SessionEntry
from kernelkb.record.intervals import clip_share

MIN_GAIN = 0.05
"""Logarithm of the predicted speedup below which the realised share of a case is unknown."""

IsKnown: TypeAlias = Callable[[str, str], bool]
"""Whether the knowledge has a bottleneck and a fix."""


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
