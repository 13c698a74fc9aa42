"""Lint of what was learned: it must follow from what it says of itself."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.model.knowledge import Knowledge
from kernelkb.model.learned import LearnedFix

_ROUNDING_TOLERANCE = 0.0002
"""The file holds four digits."""
_PRIOR_CASES = 5


def every_learned_share_follows(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Every learned share is what its count, its mean and its prior make of it."""
    priors = {row.kind: row.usual for row in knowledge.calibration.realised}
    kinds = {b.id: b.gain.kind for b in knowledge.bottlenecks if b.gain}
    for row in knowledge.learned.fixes:
        where = f"learned.yaml: {row.fix} for {row.bottleneck} on {row.architecture}"
        if kinds.get(row.bottleneck) != row.kind:
            yield where, f"the gain of {row.bottleneck} is not of kind {row.kind}; run kb learn"
        elif priors.get(row.kind) != row.prior:
            yield where, f"calibration.yaml grants {priors.get(row.kind)} by now; run kb learn"
        elif wrong := _find_contradiction(row):
            yield where, wrong


def _find_contradiction(row: LearnedFix) -> str | None:
    mean = row.prior if row.observed is None else row.observed
    share = (row.count * mean + _PRIOR_CASES * row.prior) / (row.count + _PRIOR_CASES)
    if abs(share - row.calibration) > _ROUNDING_TOLERANCE:
        return f"calibration {row.calibration:g} is not {share:.4f}, which follows; run kb learn"
    if not row.interval[0] <= row.calibration <= row.interval[1]:
        return "the calibration lies outside its interval; run kb learn"
    if not row.succeeded <= row.measured <= row.tried:
        return "more succeeded than were measured, or tried; run kb learn"
    return None
