"""Formats calibrations and phase times learned from sessions as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from kernelkb.model.entries.learned import PRIOR_SHARE, LearnedCatalogue, LearnedFix, LearnedPhase
from kernelkb.record.learned_diff import LearnedChange
from kernelkb.record.pattern_candidates import PatternCandidate


def list_learned_titles(learned: LearnedCatalogue) -> list[dict[str, str]]:
    """Return the id and a one-sentence title of each learned fix, then of each learned phase."""
    fixes = [
        {"id": f"{f.architecture}/{f.bottleneck}/{f.fix}", "title": describe_learned_fix(f)}
        for f in learned.fixes
    ]
    return [*fixes, *({"id": p.phase, "title": describe_learned_phase(p)} for p in learned.phases)]


def describe_learned_fix(fix: LearnedFix) -> str:
    """Return the learned calibration of a fix, its prior, interval, case count and successes."""
    low, high = fix.interval
    return (
        f"{fix.calibration:.2f} of its estimate, was {PRIOR_SHARE:.2f}; next case {low:.2f} to "
        f"{high:.2f}; {fix.count:.3g} cases, {fix.succeeded} of {fix.measured} faster"
    )


def describe_learned_phase(phase: LearnedPhase) -> str:
    """Return the predicted minutes of a phase in the next session, with their interval."""
    low, point, high = phase.minutes
    return f"{point:.2g} min in the next session, {low:.2g} to {high:.2g}; {phase.count} sessions"


def format_change_lines(changes: Iterable[LearnedChange]) -> Iterator[str]:
    """Yield each changed row with its source sessions, then its numbers, old and new."""
    for what, found in groupby(changes, key=lambda one: one.what):
        rows = list(found)
        yield f"{what} ({', '.join(rows[0].sessions)})"
        for change in rows:
            old, new = _format_number(change.old), _format_number(change.new)
            yield f"  {change.number:17} {old} -> {new}"


def format_pattern_candidate_lines(candidates: Iterable[PatternCandidate]) -> Iterator[str]:
    """Yield one line for each sequence that occurred in several sessions."""
    for one in candidates:
        yield f"  {one.kind}: {one.says} ({len(one.sessions)} sessions: {', '.join(one.sessions)})"


def _format_number(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_format_number, value))}]"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
