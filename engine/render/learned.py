"""What was learned → text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from kernelkb.model.learned import Learned, LearnedFix, LearnedPhase
from kernelkb.record.learned_diff import Change
from kernelkb.record.pattern_candidates import Candidate


def lesson_titles(learned: Learned) -> list[dict[str, str]]:
    """Return each row as its id and a sentence."""
    fixes = [
        {"id": f"{f.architecture}/{f.bottleneck}/{f.fix}", "title": fix_said(f)}
        for f in learned.fixes
    ]
    return [*fixes, *({"id": p.phase, "title": phase_said(p)} for p in learned.phases)]


def fix_said(fix: LearnedFix) -> str:
    """Say what a fix gave."""
    low, high = fix.interval
    return (
        f"{fix.calibration:.2f} of its estimate, was {fix.prior:.2f}; next case {low:.2f} to "
        f"{high:.2f}; {fix.count:.3g} cases, {fix.succeeded} of {fix.measured} faster"
    )


def phase_said(phase: LearnedPhase) -> str:
    """Say how long a phase takes."""
    low, point, high = phase.minutes
    return f"{point:.2g} min in the next session, {low:.2g} to {high:.2g}; {phase.count} sessions"


def change_lines(changes: Iterable[Change]) -> Iterator[str]:
    """Yield every number that changed, under its row and the sessions behind it."""
    for what, found in groupby(changes, key=lambda one: one.what):
        rows = list(found)
        yield f"{what} ({', '.join(rows[0].sessions)})"
        for change in rows:
            yield f"  {change.number:17} {_number(change.old)} -> {_number(change.new)}"


def candidate_lines(candidates: Iterable[Candidate]) -> Iterator[str]:
    """Yield what keeps happening."""
    for one in candidates:
        yield f"  {one.kind}: {one.says} ({len(one.sessions)} sessions: {', '.join(one.sessions)})"


def _number(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_number, value))}]"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
