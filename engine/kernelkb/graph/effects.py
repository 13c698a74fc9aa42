"""Compiles the model of the time, the effects of fixes, and the names of libraries' kernels."""

from __future__ import annotations

from collections.abc import Mapping

from kernelkb.decide.effect_rows import EffectRow, Program, ResourceRow, TimeModelRow
from kernelkb.decide.rules import LibraryRow
from kernelkb.graph.comparisons import ConditionCompiler
from kernelkb.model.entries.effect import Effect, Resource, TimeModel
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.metric import parse_formula


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
