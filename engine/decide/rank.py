"""Best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernelkb.decide.diagnose import Finding

_FIRST = ("correctness", "build", "measurement", "terminal")
"""Groups that come before any gain: the numbers mean nothing, or there is nothing left to gain."""


def ranked(matches: Iterable[Finding], effort: Mapping[str, float]) -> list[Finding]:
    """Return the same matches: faults and terminal verdicts, then the others by score.

    The score of a match is its predicted share of time removed, times confidence, times a factor
    for the effort of its first fix. Ties keep evaluation order.
    """

    def key(finding: Finding) -> tuple[int, float]:
        if finding.row["group"] in _FIRST:
            return _FIRST.index(finding.row["group"]), 0.0
        return len(_FIRST), -score(finding, effort)

    return sorted(matches, key=key)


def score(finding: Finding, effort: Mapping[str, float]) -> float:
    """Return what a match is worth trying, 0 to 1; 0 when its gain cannot be priced."""
    if finding.removed is None:
        return 0.0
    fixes = finding.diagnosis["fixes"]
    factor = effort[str(fixes[0]["cost_min"])] if fixes else 1.0
    return finding.removed[1] * finding.diagnosis["confidence"] * factor
