"""Best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernelkb.decide.diagnose import BottleneckMatch

_LEADING_GROUPS = ("correctness", "build", "measurement", "terminal")
"""Groups that come before any gain: the numbers mean nothing, or there is nothing left to gain."""


def rank_matches(
    matches: Iterable[BottleneckMatch], effort: Mapping[str, float]
) -> list[BottleneckMatch]:
    """Return the same matches: faults and terminal verdicts, then the others by score.

    The score of a match is its predicted share of time removed, times confidence, times a factor
    for the effort of its first fix. Ties keep evaluation order.
    """

    def sort_key(finding: BottleneckMatch) -> tuple[int, float]:
        if finding.row["group"] in _LEADING_GROUPS:
            return _LEADING_GROUPS.index(finding.row["group"]), 0.0
        return len(_LEADING_GROUPS), -score(finding, effort)

    return sorted(matches, key=sort_key)


def score(finding: BottleneckMatch, effort: Mapping[str, float]) -> float:
    """Return the score of a match, 0 to 1; 0 without an estimate of its gain."""
    if finding.removed_share is None:
        return 0.0
    fixes = finding.diagnosis["fixes"]
    factor = effort[str(fixes[0]["cost_min"])] if fixes else 1.0
    return finding.removed_share[1] * finding.diagnosis["confidence"] * factor
