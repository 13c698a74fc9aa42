"""Computes the calibration of predictions from the fixes that sessions measured."""

from __future__ import annotations

from kernelkb.decide.rules import CalibrationRow
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.learned import PRIOR_SHARE, LearnedFix

MIN_CALIBRATION = 0.05
"""Least share of a gain that is predicted: at 0 a fix would not be tried and measured again."""

_MAX_SESSIONS_LISTED = 5
"""Maximum number of sessions in a row, the latest ones."""


def build_calibration_rows(knowledge: Knowledge) -> dict[str, CalibrationRow]:
    """Return a row for each fix with a measured case, by ``architecture/bottleneck/fix``.

    The other fixes are predicted by the model of the time alone.
    """
    return {
        f"{fix.architecture}/{fix.bottleneck}/{fix.fix}": _build_calibration_row(fix)
        for fix in knowledge.learned.fixes
        if fix.count
    }


def _build_calibration_row(fix: LearnedFix) -> CalibrationRow:
    """Return the share that predictions use for one fix."""
    usual = max(fix.calibration, MIN_CALIBRATION)
    return {
        "share": usual,
        "learned": {
            "fix": fix.fix,
            "architecture": fix.architecture,
            "prior": PRIOR_SHARE,
            "calibration": usual,
            "count": fix.count,
            "session_count": len(fix.sessions),
            "sessions": list(fix.sessions[-_MAX_SESSIONS_LISTED:]),
        },
    }


def list_effort_factors(knowledge: Knowledge) -> dict[str, float]:
    """Return the rank factor of a fix by its class of minutes."""
    weights = knowledge.calibration.weights.model_dump()
    return {str(m): weights[f"effort_{m}"] for m in (5, 30, 120, 480)}
