"""Sums the minutes of each session phase, predicts them, and scores the predictions."""

from __future__ import annotations

import math
import re
from typing import TypeAlias

from kernelkb.model.entries.learned import LearnedCatalogue
from kernelkb.model.records.session import PhaseOutcome, Session
from kernelkb.record.intervals import MIN_MINUTES

MinutesEstimate: TypeAlias = tuple[float, float, float]
"""Low, point and high estimate, in minutes."""

STEPS_BY_PHASE = {
    "assess": ("environment",),
    "build": ("build", "check"),
    "baseline": ("bench", "gate"),
    "optimise": ("profile", "recommend", "compare", "tune"),
}
"""The steps that tools log, by phase of the workflow; no tool logs the last phase, validate."""

MANUAL_PHASE = "by_hand"
"""Phase of an entry with minutes that a person logged by hand."""


def sum_minutes_by_phase(session: Session) -> dict[str, float]:
    """Return the minutes that a session spent in each phase.

    A phase here is the name of a step, summed over the session. The minutes of an entry without
    steps count for the command that logged it, or for ``by_hand``.
    """
    found: dict[str, float] = {}
    for entry in session.entries:
        for step in entry.steps:
            name = _normalize_step_name(step.name)
            found[name] = found.get(name, 0.0) + step.seconds / 60
        if not entry.steps and entry.minutes is not None:
            name = _normalize_step_name(entry.by or MANUAL_PHASE)
            found[name] = found.get(name, 0.0) + entry.minutes
    return found


def _sum_minutes_by_workflow_phase(session: Session) -> dict[str, float]:
    """Return the minutes that a session spent in each phase of the workflow that tools log."""
    took = sum_minutes_by_phase(session)
    return {
        phase: math.fsum(took[step] for step in steps if step in took)
        for phase, steps in STEPS_BY_PHASE.items()
        if any(step in took for step in steps)
    }


def predict_phase_minutes(learned: LearnedCatalogue) -> dict[str, MinutesEstimate]:
    """Return the minutes to expect of each workflow phase in a new plan, by earlier sessions.

    The times of several steps in one phase are assumed independent: their points add, and so do
    the squared distances of their lows and highs from the points.
    """
    known = {row.phase: row.minutes for row in learned.phases}
    found: dict[str, MinutesEstimate] = {}
    for phase, steps in STEPS_BY_PHASE.items():
        rows = [known[step] for step in steps if step in known]
        if rows:
            point = math.fsum(middle for _, middle, _ in rows)
            below = math.hypot(*(middle - low for low, middle, _ in rows))
            above = math.hypot(*(high - middle for _, middle, high in rows))
            found[phase] = (max(0.0, point - below), point, point + above)
    return found


def score_phases(session: Session) -> tuple[PhaseOutcome, ...]:
    """Return for each phase that the plan predicted whether its minutes lie in the interval."""
    took = _sum_minutes_by_workflow_phase(session)
    return tuple(
        _score_phase(one.phase, one.predicted_min, took.get(one.phase))
        for one in session.phases
        if one.predicted_min
    )


def _score_phase(phase: str, span: MinutesEstimate, minutes: float | None) -> PhaseOutcome:
    took = None if minutes is None else max(minutes, MIN_MINUTES)
    inside = None if took is None else span[0] <= took <= span[2]
    return PhaseOutcome(phase=phase, predicted_min=span, minutes=took, inside=inside)


def _normalize_step_name(text: str) -> str:
    """Return a step's name as a snake_case name."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:50]
    return name if name[:1].isalpha() else f"step_{name}"
