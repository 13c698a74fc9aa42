"""Sessions → cases: what each change that was tried says about the predictions.

Evidence is only what a recorded session applied and measured. The rules:

- What a session reports of somebody's account is no case, and counts nowhere.
- A change without a measured speedup, because others disturbed the bench, was tried and says
  nothing more.
- The share that was realised is ``calibration × measured saving ÷ predicted saving``, a saving
  being ``1 − 1/speedup``. A slow-down has a negative saving.
- Several fixes in one variant share its measured saving. It is compared with what all of them
  together were predicted to save, 1 − Π(1 − saving), and counts as 1/k of a case for each of k.
- An estimate of less than 5 % of the time drowns in what benches differ by, so nothing is learned
  about the share; the success and the falsifier still count.
- One case says at least −1 and at most 1: an estimate is all that its mechanism can give.
- The same kernel, variant and diagnosis measured again in one session is one case, the last one:
  nobody gains weight by repeating.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from kernelkb.model.base import GainKind
from kernelkb.model.session import Decision, Session, SessionEntry
from kernelkb.model.threshold import Realization
from kernelkb.record.intervals import clip_share

MIN_ESTIMATE = 0.05
"""Estimated share of the time below which a case says nothing about what was realised."""

GainKindLookup: TypeAlias = Callable[[str, str], GainKind | None]
"""The kind of gain of a bottleneck and a fix; None where the knowledge has not both, or no gain."""


class LearningCase(NamedTuple):
    """One change that was tried."""

    session: str
    bottleneck: str
    fix: str
    architecture: str
    """``sm_90``, or ``cpu``."""
    kind: GainKind
    share: float | None = None
    """Of the estimated saving, realised, clipped; None where the case does not say."""
    weight: float = 1.0
    """1/k, for k fixes that were applied together."""
    succeeded: bool | None = None
    """Whether the whole interval of the speedup lies above 1; None when it was not measured."""
    falsifier_held: bool | None = None
    """Whether the metric moved as it had to; None when nobody knows."""


def extract_cases(
    session: Session, realised: Mapping[GainKind, Realization], find_gain_kind: GainKindLookup
) -> list[LearningCase]:
    """Return the cases of a recorded session; of a reported one none."""
    found: dict[tuple[str, ...], LearningCase] = {}
    for entry in session.entries if session.kind == "recorded" else ():
        for variant, case in _extract_entry_cases(session.session, entry, realised, find_gain_kind):
            what = (case.bottleneck, case.fix, case.architecture)
            key = (entry.kernel or session.kernel or "", variant, *what)
            if key not in found or case.succeeded is not None:
                found[key] = case
    return list(found.values())


def find_architecture(entry: SessionEntry) -> str | None:
    """Return where an entry's numbers are from; None when it does not say."""
    if entry.target == "cpu":
        return "cpu"
    return f"sm_{entry.cc.replace('.', '')}" if entry.cc else None


def _extract_entry_cases(
    session: str,
    entry: SessionEntry,
    realised: Mapping[GainKind, Realization],
    find_gain_kind: GainKindLookup,
) -> Iterator[tuple[str, LearningCase]]:
    where = find_architecture(entry)
    if where is None:
        return
    together: dict[str, list[Decision]] = {}
    for decision in entry.decisions:
        if decision.applied_as is not None:
            together.setdefault(decision.applied_as, []).append(decision)
    for variant, made in together.items():
        for decision in made:
            kind = find_gain_kind(decision.bottleneck, decision.fix)
            if kind is not None:
                prior = realised[kind].usual
                case = LearningCase(session, decision.bottleneck, decision.fix, where, kind)
                yield variant, _add_measurement(case, decision, made, prior)


def _add_measurement(
    case: LearningCase, decision: Decision, made: Sequence[Decision], prior: float
) -> LearningCase:
    """Add what was measured, if it was."""
    speedup = decision.measured
    if speedup is None or speedup <= 0 or decision.interval is None:
        return case
    fixes = {one for other in made for one in (other.fix, *other.together)}
    return case._replace(
        share=_realized_share(decision, made, 1 - 1 / speedup, prior),
        weight=1 / len(fixes),
        succeeded=decision.interval[0] > 1,
        falsifier_held=decision.falsifier_held,
    )


def _realized_share(
    decision: Decision, made: Sequence[Decision], saved: float, prior: float
) -> float | None:
    granted = prior if decision.calibration is None else decision.calibration
    if decision.predicted is None or granted <= 0:
        return None
    if _predicted_saving(decision) / granted < MIN_ESTIMATE:
        return None
    best: dict[str, float] = {}
    for other in made:
        best[other.fix] = max(best.get(other.fix, 0.0), _predicted_saving(other))
    predicted = 1 - math.prod(1 - saving for saving in best.values())
    return clip_share(granted * saved / predicted)


def _predicted_saving(decision: Decision) -> float:
    """Return the share of the time that a decision was predicted to save."""
    return max(0.0, 1 - 1 / decision.predicted[1]) if decision.predicted else 0.0
