"""Computes the calibration of predictions from the fixes that sessions measured."""

from __future__ import annotations

from kernelkb.decide.rules import CalibrationRow
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.learned import PRIOR_CASES, LearnedFix

MIN_CALIBRATION = 0.05
"""Least share of a saving that is predicted: at 0 a fix would not be tried and measured again."""

_MAX_SESSIONS_LISTED = 5
"""Maximum number of sessions in a row, the latest ones."""


def build_calibration_rows(knowledge: Knowledge) -> dict[str, CalibrationRow]:
    """Return a row for each fix with a measured case, by ``architecture/bottleneck/fix``.

    The other fixes use the shares of their kind of gain.
    """
    worst = {row.kind: row.worst for row in knowledge.calibration.realised}
    return {
        f"{fix.architecture}/{fix.bottleneck}/{fix.fix}": _build_calibration_row(
            fix, worst.get(fix.kind, 0.0)
        )
        for fix in knowledge.learned.fixes
        if fix.count
    }


def _build_calibration_row(fix: LearnedFix, worst: float) -> CalibrationRow:
    """Return the shares that predictions use for one fix.

    Each end of the interval is a mean of the learned end and that of the kind (``worst`` and 1),
    weighted by cases as the usual share is, so that the first case changes it only a little.
    """
    weight = fix.count / (fix.count + PRIOR_CASES)
    low, high = fix.interval
    low, high = weight * low + (1 - weight) * worst, weight * high + (1 - weight)
    usual = max(fix.calibration, MIN_CALIBRATION)
    return {
        "share": [usual, min(max(low, 0.0), usual), max(high, usual)],
        "learned": {
            "fix": fix.fix,
            "architecture": fix.architecture,
            "prior": fix.prior,
            "calibration": usual,
            "count": fix.count,
            "session_count": len(fix.sessions),
            "sessions": list(fix.sessions[-_MAX_SESSIONS_LISTED:]),
        },
    }
