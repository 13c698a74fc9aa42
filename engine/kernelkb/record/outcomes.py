"""Computes the success metrics of a session from its record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelkb.model.records.outcome import AchievedSpeedup, PhaseOutcome, SessionOutcome
from kernelkb.model.records.session import Decision, Session
from kernelkb.record.code_changes import count_changes
from kernelkb.record.phases import planned_minutes, score_phases, sum_minutes_by_workflow_phase
from kernelkb.record.timeline import (
    CodeState,
    TimedStep,
    build_timeline,
    ensure_time_zone,
    get_valid_timing,
)


def compute_session_outcomes(session: Session) -> SessionOutcome:
    """Return the success metrics of a session."""
    moments, minutes = build_timeline(session)
    entries = session.entries
    kernels = {entry.kernel for entry in entries if entry.kernel}
    changes = count_changes(moments)
    costs = [entry.cost_usd for entry in entries if entry.cost_usd is not None]
    claims = [claim for entry in entries for claim in entry.claims]
    return SessionOutcome(
        session=session.session,
        opened=ensure_time_zone(session.opened),
        kind=session.kind,
        goal=session.goal,
        kernel=session.kernel or (next(iter(kernels)) if len(kernels) == 1 else None),
        minutes=minutes,
        changes=changes.total,
        blind_changes=changes.blind,
        judged_changes=changes.with_verdict,
        wrong_changes=changes.wrong,
        cost_usd=sum(costs) if costs else None,
        phases=_build_phase_times(session),
        claims=len(claims),
        false_claims=sum(claim.held is False for claim in claims),
        **_find_first_build(moments),
        **_find_first_bottleneck(moments),
        **_find_speedups(moments),
        **_count_decisions([decision for entry in entries for decision in entry.decisions]),
    )


def _build_phase_times(session: Session) -> tuple[PhaseOutcome, ...]:
    return tuple(
        PhaseOutcome(
            phase=one.phase, predicted_min=one.predicted, minutes=one.minutes, inside=one.inside
        )
        for one in score_phases(planned_minutes(session), sum_minutes_by_workflow_phase(session))
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
        if None not in comparison_key(one) and comparison_key(one) == comparison_key(final)
    ]
    return {"final": final, "best": max(comparable or [final], key=lambda one: one.speedup)}


def comparison_key(one: AchievedSpeedup) -> tuple[str | None, ...]:
    """Return the fields that two comparable speedups have in common."""
    return (one.kernel, one.target, one.machine, one.baseline, one.workload)


def _read_speedup(moment: TimedStep, *, checked: bool) -> AchievedSpeedup | None:
    timing = get_valid_timing(moment.step)
    if timing is None:
        return None
    return AchievedSpeedup(
        speedup=timing.speedup,
        interval=timing.interval,
        kernel=moment.context.kernel,
        target=moment.context.target,
        machine=moment.context.machine,
        variant=moment.step.variant,
        baseline=timing.baseline,
        workload=timing.workload,
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
