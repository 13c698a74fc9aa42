"""Best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.decide.diagnose import Finding

_FIRST = ("correctness", "build", "measurement", "terminal")
"""Groups that come before any gain: the numbers mean nothing, or there is nothing left to gain."""


def ranked(findings: Iterable[Finding], effort: Mapping[str, float]) -> list[Finding]:
    """Return the same findings: faults and terminal verdicts, matches by score, then unknown.

    The score of a match is its predicted share of time removed, times confidence, times a factor
    for the effort of its first fix. Unknown ones are ordered by how much already points to them.
    Ties keep evaluation order.
    """

    def key(finding: Finding) -> tuple[int, int, float]:
        if finding.diagnosis["verdict"] == "unknown":
            return 2, 0, -float(len(finding.diagnosis["because"]))
        if finding.row["group"] in _FIRST:
            return 0, _FIRST.index(finding.row["group"]), 0.0
        return 1, 0, -score(finding, effort)

    return sorted(findings, key=key)


def score(finding: Finding, effort: Mapping[str, float]) -> float:
    """Return what a match is worth trying, 0 to 1; 0 when its gain cannot be priced."""
    if finding.removed is None:
        return 0.0
    fixes = finding.diagnosis["fixes"]
    factor = effort[str(fixes[0]["cost_min"])] if fixes else 1.0
    return finding.removed[1] * finding.diagnosis["confidence"] * factor
