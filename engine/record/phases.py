"""How long the phases of sessions take, and whether they took what was predicted."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from kernelkb.model.learned import LearnedCatalogue
from kernelkb.model.session import Session
from kernelkb.record.intervals import MIN_MINUTES

MinutesEstimate: TypeAlias = tuple[float, float, float]
"""Low, point, high."""

STEPS_BY_PHASE = {
    "assess": ("environment",),
    "build": ("build", "check"),
    "baseline": ("bench", "gate"),
    "optimise": ("profile", "recommend", "compare", "tune"),
}
"""For each phase of the workflow the steps that tools log; nothing logs the last one, validate."""

MANUAL_PHASE = "by_hand"
"""The phase of what a person logged with its minutes."""


class PhaseScore(NamedTuple):
    """A prediction, and what came of it."""

    phase: str
    predicted: MinutesEstimate
    minutes: float | None
    """None when the session had no such phase."""
    inside: bool | None


def sum_minutes_by_phase(session: Session) -> dict[str, float]:
    """Return the minutes that a session spent in each phase.

    A phase is the name of a step, summed over the session. An entry without steps that says how
    long it took counts for the verb that logged it.
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


def sum_minutes_by_workflow_phase(session: Session) -> dict[str, float]:
    """Return the minutes that a session spent in each phase of the workflow that tools log."""
    took = sum_minutes_by_phase(session)
    return {
        phase: math.fsum(took[step] for step in steps if step in took)
        for phase, steps in STEPS_BY_PHASE.items()
        if any(step in took for step in steps)
    }


def predict_phase_minutes(learned: LearnedCatalogue) -> dict[str, MinutesEstimate]:
    """Return what earlier sessions let expect of each phase of the workflow, for a new plan.

    Where a phase has several steps, their times are taken for independent: points add, and so do
    the squares of what the ends are away from them.
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


def planned_minutes(session: Session) -> dict[str, MinutesEstimate]:
    """Return what a session's plan predicted, by phase; phases without a prediction left out."""
    return {one.phase: one.predicted_min for one in session.phases if one.predicted_min}


def score_phases(
    predicted: Mapping[str, MinutesEstimate], minutes: Mapping[str, float]
) -> tuple[PhaseScore, ...]:
    """Say of each predicted phase whether its time lies inside.

    Args:
        predicted: By phase: ``planned`` of a session, or ``minutes`` of each ``LearnedPhase``.
        minutes: What it took: ``plan_minutes_of`` the session, or ``minutes_of`` it.
    """
    took = {name: max(value, MIN_MINUTES) for name, value in minutes.items()}
    return tuple(
        PhaseScore(name, span, took.get(name), _is_within(span, took.get(name)))
        for name, span in predicted.items()
    )


def _is_within(span: MinutesEstimate, minutes: float | None) -> bool | None:
    return None if minutes is None else span[0] <= minutes <= span[2]


def _normalize_step_name(text: str) -> str:
    """Return a step's name as a snake_case name."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:50]
    return name if name[:1].isalpha() else f"step_{name}"
