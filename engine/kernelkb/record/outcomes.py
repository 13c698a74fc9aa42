"""Computes the success metrics and the phase times of a session from its record.

The steps are put on one clock, each with the state of the code that it ran; from these come the
times to a first build and cause, the changes of the code, and the speedups.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from kernelkb.model.base import Target
from kernelkb.model.entries.learned import LearnedCatalogue
from kernelkb.model.records.measurement import is_failure
from kernelkb.model.records.session import (
    AchievedSpeedup,
    Decision,
    PhaseOutcome,
    Session,
    SessionEntry,
    SessionOutcome,
    Step,
)
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

_MAX_PAUSE = timedelta(hours=1)
"""A longer pause between two steps is not counted as working time."""

_CODE_STEPS = ("build", "check", "bench", "profile", "tune", "compare")
"""Steps that run the code of a variant."""


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


class StepContext(NamedTuple):
    """Kernel, target and machine of a step; results are comparable only within one context."""

    kernel: str | None
    target: Target | None
    machine: str | None


class CodeState(NamedTuple):
    """One state of the sources of a variant."""

    context: StepContext
    variant: str | None
    sources: str | None


class TimedStep(NamedTuple):
    """A step, with the session clock at its end."""

    step: Step
    context: StepContext
    code: CodeState | None
    """None for a step that runs no code of a variant, or does not record which."""
    minutes: float | None
    """Minutes since the session was opened; None if the record lacks the times."""


def compute_session_outcomes(session: Session) -> SessionOutcome:
    """Return the success metrics of a session."""
    moments, minutes = _build_timeline(session)
    entries = session.entries
    kernels = {entry.kernel for entry in entries if entry.kernel}
    costs = [entry.cost_usd for entry in entries if entry.cost_usd is not None]
    claims = [claim for entry in entries for claim in entry.claims]
    return SessionOutcome(
        session=session.session,
        opened=_set_time_zone(session.opened),
        kind=session.kind,
        goal=session.goal,
        kernel=session.kernel or (next(iter(kernels)) if len(kernels) == 1 else None),
        minutes=minutes,
        cost_usd=sum(costs) if costs else None,
        phases=score_phases(session),
        claims=len(claims),
        false_claims=sum(claim.held is False for claim in claims),
        **_count_changes(moments),
        **_find_first_build(moments),
        **_find_first_bottleneck(moments),
        **_find_speedups(moments),
        **_count_decisions([decision for entry in entries for decision in entry.decisions]),
    )


def _find_first_build(moments: Sequence[TimedStep]) -> dict[str, Any]:
    """Return the minutes until the first code that was built and then checked as correct."""
    built: set[CodeState] = set()
    for step, _, code, minutes in moments:
        if code is None or step.status == "failure":
            continue
        if step.name == "build":
            built.add(code)
        elif step.name == "check" and code in built:
            return {"worked": True, "minutes_to_build": minutes}
    return {}


def _find_first_bottleneck(moments: Sequence[TimedStep]) -> dict[str, Any]:
    for step, _, _, minutes in moments:
        if step.name == "recommend" and step.bottleneck:
            return {"bottleneck": step.bottleneck, "minutes_to_bottleneck": minutes}
    return {}


def _find_speedups(moments: Sequence[TimedStep]) -> dict[str, Any]:
    """Return the last valid speedup, and the best of those comparable with it."""
    checks = [(m.code, m.step.status) for m in moments if m.step.name == "check"]
    wrong = {code for code, status in checks if status == "failure"}
    correct = {code for code, status in checks if status != "failure"} - wrong
    reached = [
        speedup
        for moment in moments
        if moment.step.name == "bench" and moment.code not in wrong
        if (speedup := _read_speedup(moment, checked=moment.code in correct))
    ]
    if not reached:
        return {}
    final = reached[-1]
    comparable = [
        one
        for one in reached
        if None not in _comparison_key(one) and _comparison_key(one) == _comparison_key(final)
    ]
    return {"final": final, "best": max(comparable or [final], key=lambda one: one.speedup)}


def _comparison_key(one: AchievedSpeedup) -> tuple[str | None, ...]:
    """Return the fields that two comparable speedups have in common."""
    return (one.kernel, one.target, one.machine, one.baseline, one.workload)


def _read_speedup(moment: TimedStep, *, checked: bool) -> AchievedSpeedup | None:
    step, context = moment.step, moment.context
    if step.speedup is None or not has_valid_speedup(step):
        return None
    return AchievedSpeedup(
        speedup=step.speedup,
        interval=step.interval,
        kernel=context.kernel,
        target=context.target,
        machine=context.machine,
        variant=step.variant,
        baseline=step.baseline,
        workload=step.workload,
        checked=checked and moment.code is not None,
    )


def _count_decisions(decisions: Sequence[Decision]) -> dict[str, Any]:
    pairs = [(d.predicted, d.measured) for d in decisions if d.predicted and d.measured is not None]
    return {
        "decisions": len(decisions),
        "predicted": sum(decision.predicted is not None for decision in decisions),
        "measured": sum(decision.measured is not None for decision in decisions),
        "compared": len(pairs),
        "inside": sum(low <= measured <= high for (low, _, high), measured in pairs),
        "falsifiers_held": sum(decision.falsifier_held is True for decision in decisions),
        "falsifiers_failed": sum(decision.falsifier_held is False for decision in decisions),
    }


def has_valid_speedup(step: Step) -> bool:
    """Return whether a step measured a speedup that counts."""
    is_failed = step.status == "failure" or is_failure(step.verdict)
    return step.speedup is not None and not is_failed


def _build_timeline(session: Session) -> tuple[tuple[TimedStep, ...], float | None]:
    """Return the steps in the order they were recorded, and the session's minutes if it tells.

    The clock adds the seconds of each step, and the pause before it if both of its ends are known.
    An entry with minutes of its own takes at least that long.
    """
    clock = _Clock(session)
    placed: list[tuple[Step, StepContext, float | None]] = []
    for entry in session.entries:
        place = StepContext(entry.kernel or session.kernel, entry.target, entry.machine)
        clock.begin_entry()
        placed += [(step, place, clock.advance(step)) for step in entry.steps]
        clock.end_entry(entry)
    codes = _iter_code_states([(step, place) for step, place, _ in placed])
    moments = tuple(
        TimedStep(step, place, code, minutes)
        for (step, place, minutes), code in zip(placed, codes, strict=True)
    )
    return moments, clock.total


class _Clock:
    """Counts the minutes since the session was opened, and whether the record has them all."""

    def __init__(self, session: Session) -> None:
        self._is_reported = session.kind == "reported"
        self._opened = _set_time_zone(session.opened)
        self._last: datetime | None = None
        self._minutes = self._entry_start = 0.0
        self._has_times = False
        self._all_known = self._entry_known = True

    def begin_entry(self) -> None:
        """Begin an entry."""
        self._entry_start = self._minutes
        self._entry_known = True

    def advance(self, step: Step) -> float | None:
        """Add a step; return the minutes at its end, or None if unknown."""
        self._has_times = True
        self._entry_known &= not (self._is_reported and step.seconds == 0)
        took = timedelta(seconds=step.seconds)
        if step.at is not None:
            at = _set_time_zone(step.at)
            pause = at - (self._last or min(self._opened, at))
            self._last = max(self._last or at, at + took)
            # Negative if two assistants worked in parallel: the clock counts that time once.
            took = max(took + (pause if pause < _MAX_PAUSE else timedelta(0)), timedelta(0))
        elif self._last is not None:
            self._last += took
        self._minutes += took.total_seconds() / 60
        return self._minutes if self._all_known and self._entry_known else None

    def end_entry(self, entry: SessionEntry) -> None:
        """End an entry; minutes of its own are the least that it took."""
        if entry.minutes is not None:
            self._has_times = True
            self._minutes = max(self._minutes, self._entry_start + entry.minutes)
        elif not self._entry_known:
            self._all_known = False

    @property
    def total(self) -> float | None:
        """Minutes of the whole session; None if the record lacks the times."""
        return self._minutes if self._has_times and self._all_known else None


def _set_time_zone(moment: datetime) -> datetime:
    """Return a time with a time zone; a time without one, such as a hand-typed time, is UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _iter_code_states(placed: Sequence[tuple[Step, StepContext]]) -> Iterator[CodeState | None]:
    """Yield the state of the code of each step; None for a step that runs no code.

    A step without a digest of its sources ran the last sources of its variant, or else the next.
    """
    first: dict[tuple[StepContext, str | None], str] = {}
    for step, place in placed:
        if step.sources:
            first.setdefault((place, step.variant), step.sources)
    latest = dict(first)
    for step, place in placed:
        if step.name not in _CODE_STEPS or not (step.variant or step.sources):
            yield None
            continue
        if step.sources:
            latest[place, step.variant] = step.sources
        yield CodeState(place, step.variant, latest.get((place, step.variant)))


class _CodeChange(NamedTuple):
    old: CodeState
    new: CodeState
    blind: bool


class _CodeResults:
    """The results of the steps, for each state of the code."""

    def __init__(self) -> None:
        self.failed: set[CodeState] = set()
        self.timings: dict[CodeState, Step] = {}
        self.comparison_intervals: dict[CodeState, tuple[float, float]] = {}
        """95 % interval of a code's speedup over the code before it."""

    def record_step(self, code: CodeState, step: Step) -> None:
        """Record the result of one step."""
        if step.name == "check" and step.status == "failure":
            self.failed.add(code)
        if step.name == "bench" and has_valid_speedup(step):
            self.timings[code] = step
        if step.name == "compare" and has_valid_speedup(step) and step.interval:
            self.comparison_intervals[code] = step.interval

    def is_wrong(self, change: _CodeChange) -> bool | None:
        """Return whether a change failed its check or made the code slower; None if unknown."""
        if change.new in self.failed:
            return True
        duel = self.comparison_intervals.get(change.new)
        if duel:
            return duel[1] < 1
        old, new = self.timings.get(change.old), self.timings.get(change.new)
        if not (old and new and old.interval and new.interval):
            return None
        if (old.baseline, old.workload) != (new.baseline, new.workload):
            return None
        return new.interval[1] < old.interval[0]


def _count_changes(steps: Sequence[TimedStep]) -> dict[str, Any]:
    """Count the code changes of a session, over all its kernels and machines; see SessionOutcome.

    A failed build is no change, because it made no code that runs; neither is a return to code
    that was seen before.
    """
    known = _CodeResults()
    made: list[_CodeChange] = []
    current: dict[StepContext, CodeState] = {}
    seen: set[CodeState] = set()
    profiled: dict[StepContext, bool] = {}
    for step, place, code, _ in steps:
        if code is None or (step.name == "build" and step.status == "failure"):
            continue
        old = current.get(place)
        if old and code not in seen:
            repair = old in known.failed
            made.append(_CodeChange(old, code, not (repair or profiled.get(place))))
            profiled[place] = False
        seen.add(code)
        current[place] = code
        if step.name == "profile" and step.status != "failure":
            profiled[place] = True
        known.record_step(code, step)
    if all(code is None for _, _, code, _ in steps):
        return {}
    judged = [wrong for wrong in map(known.is_wrong, made) if wrong is not None]
    return {
        "changes": len(made),
        "blind_changes": sum(change.blind for change in made),
        "judged_changes": len(judged),
        "wrong_changes": None if made and not judged else sum(judged),
    }
