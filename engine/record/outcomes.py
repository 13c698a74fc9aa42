"""Session → what came of it. Computed from the record, never typed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelkb.model.outcome import Outcomes, PhaseTime, Reached
from kernelkb.model.session import Decision, Session
from kernelkb.record.code_changes import count_changes
from kernelkb.record.legacy_steps import bottleneck_of, timing_of
from kernelkb.record.phases import plan_minutes_of, planned, scored
from kernelkb.record.timeline import Code, Moment, aware, timeline


def outcomes(session: Session) -> Outcomes:
    """Return the success metrics of a session; the same record always gives the same."""
    moments, minutes = timeline(session)
    entries = session.entries
    kernels = {entry.kernel for entry in entries if entry.kernel}
    changes = count_changes(moments)
    costs = [entry.cost_usd for entry in entries if entry.cost_usd is not None]
    claims = [claim for entry in entries for claim in entry.claims]
    return Outcomes(
        session=session.session,
        opened=aware(session.opened),
        kind=session.kind,
        goal=session.goal,
        kernel=session.kernel or (next(iter(kernels)) if len(kernels) == 1 else None),
        minutes=minutes,
        changes=changes.made,
        blind_changes=changes.blind,
        judged_changes=changes.judged,
        wrong_changes=changes.wrong,
        cost_usd=sum(costs) if costs else None,
        phases=_phases(session),
        claims=len(claims),
        false_claims=sum(claim.held is False for claim in claims),
        **_first_build(moments),
        **_first_bottleneck(moments),
        **_speedups(moments),
        **_judged([decision for entry in entries for decision in entry.decisions]),
    )


def _phases(session: Session) -> tuple[PhaseTime, ...]:
    return tuple(
        PhaseTime(
            phase=one.phase, predicted_min=one.predicted, minutes=one.minutes, inside=one.inside
        )
        for one in scored(planned(session), plan_minutes_of(session))
    )


def _first_build(moments: Sequence[Moment]) -> dict[str, Any]:
    """Return when some code had been built and then checked right."""
    built: set[Code] = set()
    for step, _, code, minutes in moments:
        if code is None or step.status == "failure":
            continue
        if step.name == "build":
            built.add(code)
        elif step.name == "check" and code in built:
            return {"worked": True, "minutes_to_build": minutes}
    return {}


def _first_bottleneck(moments: Sequence[Moment]) -> dict[str, Any]:
    for step, _, _, minutes in moments:
        if step.name == "recommend" and (named := bottleneck_of(step)):
            return {"bottleneck": named, "minutes_to_bottleneck": minutes}
    return {}


def _speedups(moments: Sequence[Moment]) -> dict[str, Any]:
    """Return the last valid speedup, and the best of those that it can be compared with."""
    checks = [(m.code, m.step.status) for m in moments if m.step.name == "check"]
    wrong = {code for code, status in checks if status == "failure"}
    right = {code for code, status in checks if status != "failure"} - wrong
    reached = [
        found
        for moment in moments
        if moment.step.name == "bench" and moment.code not in wrong
        if (found := _reached(moment, checked=moment.code in right))
    ]
    if not reached:
        return {}
    final = reached[-1]
    alike = [one for one in reached if None not in terms(one) and terms(one) == terms(final)]
    return {"final": final, "best": max(alike or [final], key=lambda one: one.speedup)}


def terms(one: Reached) -> tuple[str | None, ...]:
    """Return what must be the same for two speedups to be compared."""
    return (one.kernel, one.target, one.machine, one.baseline, one.workload)


def _reached(moment: Moment, *, checked: bool) -> Reached | None:
    timing = timing_of(moment.step)
    if timing is None:
        return None
    return Reached(
        speedup=timing.speedup,
        interval=timing.interval,
        kernel=moment.place.kernel,
        target=moment.place.target,
        machine=moment.place.machine,
        variant=moment.step.variant,
        baseline=timing.baseline,
        workload=timing.workload,
        checked=checked and moment.code is not None,
    )


def _judged(decisions: Sequence[Decision]) -> dict[str, Any]:
    pairs = [(d.predicted, d.measured) for d in decisions if d.predicted and d.measured is not None]
    words = [decision.falsifier or "" for decision in decisions]
    return {
        "decisions": len(decisions),
        "predicted": sum(decision.predicted is not None for decision in decisions),
        "measured": sum(decision.measured is not None for decision in decisions),
        "compared": len(pairs),
        "inside": sum(low <= measured <= high for (low, _, high), measured in pairs),
        "falsifiers_held": sum(word.startswith("held:") for word in words),
        "falsifiers_failed": sum(word.startswith("failed:") for word in words),
    }
