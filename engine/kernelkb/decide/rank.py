"""Ranks matched bottlenecks: faults and terminal verdicts first, then by predicted gain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernelkb.decide.diagnose import BottleneckMatch

_LEADING_GROUPS = ("correctness", "build", "measurement", "terminal")
"""Groups ranked before all others: the measured times are not valid, or no gain is possible."""

_UNPRICED_SAVING = 0.08
"""Saving assumed where none can be computed: a roof that binds stands before fixes that give
nothing, and after those that give something (judgement)."""

_CAUSE_SPEEDUP = 1.1
"""Predicted speedup from which a cause ranks before its symptoms, even if theirs is larger
(judgement)."""

_BEHIND_CAUSE = 0.99


def rank_matches(
    matches: Iterable[BottleneckMatch], effort: Mapping[str, float]
) -> list[BottleneckMatch]:
    """Return the same matches: faults and terminal verdicts, then the others by score.

    A symptom stands behind its causes. Ties keep evaluation order.

    Args:
        matches: Matches in evaluation order.
        effort: Factor by the minutes that a fix takes, such as ``30``.
    """
    found = list(matches)
    scores = _lower_symptoms(found, {match.row["id"]: score(match, effort) for match in found})

    def sort_key(finding: BottleneckMatch) -> tuple[int, float]:
        if finding.row["group"] in _LEADING_GROUPS:
            return _LEADING_GROUPS.index(finding.row["group"]), 0.0
        return len(_LEADING_GROUPS), -scores[finding.row["id"]]

    return sorted(found, key=sort_key)


def _lower_symptoms(found: list[BottleneckMatch], scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores, that of each symptom below those of its causes."""
    gains = {m.row["id"]: m.prediction.speedup for m in found if m.prediction}
    lowered = dict(scores)
    for _ in found:  # as often as a chain of symptoms can be long
        before = dict(lowered)
        for match in found:
            name = match.row["id"]
            enough = min(_CAUSE_SPEEDUP, gains.get(name, _CAUSE_SPEEDUP))
            causes = (c for c in match.row["symptom_of"] if gains.get(c, 0.0) >= enough)
            above = [lowered[cause] for cause in causes]
            lowered[name] = min([lowered[name], *(each * _BEHIND_CAUSE for each in above)])
        if lowered == before:
            break
    return lowered


def score(finding: BottleneckMatch, effort: Mapping[str, float]) -> float:
    """Return the rank score of a match, 0 to 1.

    It is the share of the time that its fix would remove, times the confidence, times a factor for
    the effort of the first fix.
    """
    saved = _UNPRICED_SAVING
    if finding.prediction is not None:
        saved = max(0.0, 1 - 1 / finding.prediction.speedup)
    fixes = finding.diagnosis["fixes"]
    factor = effort[str(fixes[0]["cost_min"])] if fixes else 1.0
    return saved * finding.diagnosis["confidence"] * factor
