"""Compiles the fixes: where they apply, what they should and did gain, and the time's model."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from kernelkb.decide.rules import (
    CalibrationRow,
    EffectRow,
    FixRow,
    LibraryRow,
    MeasuredCaseRow,
    Program,
    ResourceRow,
    SignatureRow,
    TimeModelRow,
)
from kernelkb.graph.comparisons import ConditionCompiler
from kernelkb.model.answers.recommendation import Advice, MeasuredGain
from kernelkb.model.entries.effect import Effect, Resource, TimeModel
from kernelkb.model.entries.fix import ChangeSignature, Fix
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.learned import PRIOR_SHARE, LearnedFix
from kernelkb.model.entries.metric import parse_formula


def summarize_measured(
    knowledge: Knowledge, fix: str, bottleneck: str | None = None
) -> MeasuredGain | None:
    """Return what a fix gave, on all GPUs and operations; None without a measured case.

    Args:
        knowledge: Holds the measured cases.
        fix: Its id.
        bottleneck: Only the cases that had this cause; None: all.
    """
    cases = [
        case
        for case in knowledge.measured.cases
        if case.fix == fix and bottleneck in (None, case.bottleneck)
    ]
    if not cases:
        return None
    gains = [case.speedup for case in cases]
    return {
        "count": len(cases),
        "median": round(statistics.median(gains), 3),
        "lowest": min(gains),
        "highest": max(gains),
        "kernels": list(dict.fromkeys(case.kernel for case in cases)),
        "bottleneck": bottleneck,
    }


def summarize_by_cause(knowledge: Knowledge, fix: str) -> dict[str, MeasuredGain]:
    """Return what a fix gave for each cause that it was measured for."""
    causes = dict.fromkeys(c.bottleneck for c in knowledge.measured.cases if c.fix == fix)
    found = {cause: summarize_measured(knowledge, fix, cause) for cause in causes}
    return {cause: gain for cause, gain in found.items() if gain is not None}


def build_case_rows(knowledge: Knowledge) -> list[MeasuredCaseRow]:
    """Return the measured changes that gained, for the search of similar kernels."""
    return [
        {
            "kernel": case.kernel,
            "fix": case.fix,
            "bottleneck": case.bottleneck,
            "operation": case.operation,
            "device": case.device,
            "speedup": case.speedup,
            "state": dict(case.state),
        }
        for case in knowledge.measured.cases
        if case.state
    ]


def build_fix_rows(knowledge: Knowledge, conditions: ConditionCompiler) -> dict[str, FixRow]:
    """Return every fix by id."""
    return {
        fix.id: _build_fix_row(fix, conditions, knowledge)
        for family in knowledge.families
        for fix in family.fixes
    }


def _build_fix_row(fix: Fix, conditions: ConditionCompiler, knowledge: Knowledge) -> FixRow:
    advice: Advice = {
        "id": fix.id,
        "do": fix.do,
        "before": fix.before,
        "after": fix.after,
        "on_line": None,
        "tried": None,
        "when_not": fix.when_not,
        "cost_min": fix.cost_min,
        "risk": fix.risk,
        "predicted_speedup": None,
        "measured": summarize_measured(knowledge, fix.id),
    }
    row: FixRow = {
        "advice": advice,
        "measured": summarize_by_cause(knowledge, fix.id),
        "at_call": fix.at_call,
        "effects": list(fix.effects),
        "on_line": fix.on_line,
        "undoes": list(fix.undoes),
        "recognised_by": _build_signature_row(fix.recognised_by),
    }
    if fix.applies is not None:
        row["applies"] = conditions.compile(fix.applies, ", ".join(fix.sources))
    return row


def _build_signature_row(signature: ChangeSignature | None) -> SignatureRow | None:
    if signature is None:
        return None
    return {
        "added": signature.added,
        "removed": signature.removed,
        "code": {name: str(change) for name, change in signature.code.items()},
        "finds_all": signature.finds_all,
    }


def build_time_model_row(knowledge: Knowledge) -> TimeModelRow:
    """Return the model of the time, with its resources and errors."""
    model = _get_model(knowledge)
    errors = model.errors
    return {
        "resources": [_build_resource_row(r) for r in model.resources],
        "waits": {wait.id: [wait.metric, wait.follows] for wait in model.waits},
        "fill": model.fill,
        "warps": model.warps,
        "duration": model.duration,
        "empty_kernel": model.empty_kernel,
        "empty_us": model.empty_us,
        "clock": model.clock,
        "widths": {"50": errors.width_50, "80": errors.width_80, "95": errors.width_95},
        "slope": errors.slope,
    }


def _build_resource_row(resource: Resource) -> ResourceRow:
    return {
        "id": resource.id,
        "title": resource.title,
        "group": resource.group,
        "use": resource.use,
        "peak": resource.peak,
    }


def build_effect_rows(knowledge: Knowledge, conditions: ConditionCompiler) -> dict[str, EffectRow]:
    """Return every effect by id; work on a unit or a group is that on each of its resources."""
    resources = _get_model(knowledge).resources
    return {e.id: _build_effect_row(e, resources, conditions) for e in knowledge.effects.effects}


def build_library_rows(knowledge: Knowledge) -> list[LibraryRow]:
    """Return the libraries whose kernels are recognised by name."""
    return [
        {
            "id": library.id,
            "title": library.title,
            "name_pattern": library.name_pattern,
            "advice": library.advice,
        }
        for library in knowledge.libraries.libraries
    ]


def _get_model(knowledge: Knowledge) -> TimeModel:
    model = knowledge.effects.model
    if model is None:
        raise ValueError("effects.yaml lacks its model")  # loading reports it
    return model


def _build_effect_row(
    effect: Effect, resources: tuple[Resource, ...], conditions: ConditionCompiler
) -> EffectRow:
    row: EffectRow = {
        "work": _expand(effect.work, resources),
        "add": _expand(effect.add, resources),
        "waits": {name: list(parse_formula(text)) for name, text in effect.waits.items()},
        "latency": _parse_optional(effect.latency),
        "fill": _parse_optional(effect.fill),
        "warps": _parse_optional(effect.warps),
        "time": _parse_optional(effect.time),
        "title": effect.title,
        "parts": list(effect.parts),
        "lowers_floor": effect.lowers_floor,
        "conditional": effect.conditional,
        "error": effect.error,
    }
    if effect.when is not None:
        row["when"] = conditions.compile(effect.when, ", ".join(effect.sources))
    return row


def _parse_optional(text: str | None) -> Program | None:
    return None if text is None else list(parse_formula(text))


def _expand(work: Mapping[str, str], resources: tuple[Resource, ...]) -> dict[str, Program]:
    """Return formulas by resource; one for the resource itself precedes one for its unit."""
    programs: dict[str, Program] = {}
    for resource in resources:
        for name in (resource.id, resource.unit, resource.group):
            if name in work:
                programs[resource.id] = list(parse_formula(work[name]))
                break
    return programs


MIN_CALIBRATION = 0.05
"""Least share of a gain that is predicted: at 0 a fix would not be tried and measured again."""

_MAX_SESSIONS_LISTED = 5
"""Maximum number of sessions in a row, the latest ones."""


def build_calibration_rows(knowledge: Knowledge) -> dict[str, CalibrationRow]:
    """Return a row for each fix with a measured case, by ``architecture/bottleneck/fix``.

    The other fixes are predicted by the model of the time alone.
    """
    return {
        f"{fix.architecture}/{fix.bottleneck}/{fix.fix}": _build_calibration_row(fix)
        for fix in knowledge.learned.fixes
        if fix.count
    }


def _build_calibration_row(fix: LearnedFix) -> CalibrationRow:
    """Return the share that predictions use for one fix."""
    usual = max(fix.calibration, MIN_CALIBRATION)
    return {
        "share": usual,
        "learned": {
            "fix": fix.fix,
            "architecture": fix.architecture,
            "prior": PRIOR_SHARE,
            "calibration": usual,
            "count": fix.count,
            "session_count": len(fix.sessions),
            "sessions": list(fix.sessions[-_MAX_SESSIONS_LISTED:]),
        },
    }


def list_effort_factors(knowledge: Knowledge) -> dict[str, float]:
    """Return the rank factor of a fix by its class of minutes."""
    weights = knowledge.calibration.weights.model_dump()
    return {str(m): weights[f"effort_{m}"] for m in (5, 30, 120, 480)}
