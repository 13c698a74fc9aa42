"""Ranks matched bottlenecks: faults and terminal verdicts first, then by predicted gain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernelkb.decide.diagnose import BottleneckMatch

_LEADING_GROUPS = ("correctness", "build", "measurement", "terminal")
"""Groups ranked before all others: the measured times are not valid, or no gain is possible."""


def rank_matches(
    matches: Iterable[BottleneckMatch], effort: Mapping[str, float]
) -> list[BottleneckMatch]:
    """Return the same matches: faults and terminal verdicts, then the others by score.

    Ties keep evaluation order.

    Args:
        matches: Matches in evaluation order.
        effort: Factor by the minutes that a fix takes, such as ``30``.
    """

    def sort_key(finding: BottleneckMatch) -> tuple[int, float]:
        if finding.row["group"] in _LEADING_GROUPS:
            return _LEADING_GROUPS.index(finding.row["group"]), 0.0
        return len(_LEADING_GROUPS), -score(finding, effort)

    return sorted(matches, key=sort_key)


def score(finding: BottleneckMatch, effort: Mapping[str, float]) -> float:
    """Return the rank score of a match, 0 to 1; 0 if its gain cannot be estimated.

    It is the predicted share of time removed, times the confidence, times a factor for the effort
    of the first fix.
    """
    if finding.removed_share is None:
        return 0.0
    fixes = finding.diagnosis["fixes"]
    factor = effort[str(fixes[0]["cost_min"])] if fixes else 1.0
    return finding.removed_share[1] * finding.diagnosis["confidence"] * factor
