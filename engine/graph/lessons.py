"""What sessions taught → the shares that predictions use."""

from __future__ import annotations

from engine.decide.program import LearnedRow
from engine.model.learned import Learned, LearnedFix

LEAST_CALIBRATION = 0.05
"""A prediction of nothing could never be found wrong: nobody would try the fix again."""

_SESSIONS_SHOWN = 5


def lessons(learned: Learned) -> dict[str, LearnedRow]:
    """Return a row for each fix that has a measured case; the others keep their kind's shares."""
    return {f"{f.architecture}/{f.bottleneck}/{f.fix}": _row(f) for f in learned.fixes if f.count}


def _row(fix: LearnedFix) -> LearnedRow:
    """Return the shares in force.

    The usual share is at most 1: an estimate is all that the mechanism can give, and what came on
    top of it was something else. What it gave at best may stand above, below the roof.
    """
    low, high = fix.interval
    usual = min(max(fix.calibration, LEAST_CALIBRATION), 1.0)
    return {
        "share": [usual, min(max(low, 0.0), usual), max(high, usual)],
        "said": {
            "fix": fix.fix,
            "architecture": fix.architecture,
            "prior": fix.prior,
            "calibration": usual,
            "count": fix.count,
            "session_count": len(fix.sessions),
            "sessions": list(fix.sessions[-_SESSIONS_SHOWN:]),
        },
    }
