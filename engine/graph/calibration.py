"""What sessions taught → the shares that predictions use."""

from __future__ import annotations

from kernelkb.decide.rules import CalibrationRow
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.learned import LearnedFix

MIN_CALIBRATION = 0.05
"""A prediction of nothing could never be found wrong: nobody would try the fix again."""

_PRIOR_CASES = 5
_MAX_SESSIONS_LISTED = 5


def build_calibration_rows(knowledge: Knowledge) -> dict[str, CalibrationRow]:
    """Return a row for each fix that has a measured case; the others keep their kind's shares."""
    worst = {row.kind: row.worst for row in knowledge.calibration.realised}
    return {
        f"{fix.architecture}/{fix.bottleneck}/{fix.fix}": _build_calibration_row(
            fix, worst.get(fix.kind, 0.0)
        )
        for fix in knowledge.learned.fixes
        if fix.count
    }


def _build_calibration_row(fix: LearnedFix, worst: float) -> CalibrationRow:
    """Return the shares in force.

    The ends of the interval move from those of the kind to the learned ones at the pace of the
    usual share, so that the first case makes no jump.
    """
    weight = fix.count / (fix.count + _PRIOR_CASES)
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
