"""Build one variant of one kernel, or many configurations of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from engine.actions.program import decision_program
from engine.actions.workplace import Workplace, prepare
from engine.decide.symptoms import find_symptoms
from engine.measure.build import build as compile_variant
from engine.measure.build import build_all as compile_all
from engine.measure.environment import Wanted
from engine.model.measurement import Build


def build(kernel: str, variant: str | None = None, target: Wanted = "auto") -> Build:
    """Compile a variant. A compiler error is a result; see ``prepare`` for what is raised."""
    return build_here(prepare(kernel, variant, target))


def build_configurations(
    kernel: str,
    macros: Mapping[str, Sequence[str]],
    variant: str | None = None,
    target: Wanted = "auto",
) -> list[Build]:
    """Compile every combination of some macros' values, side by side."""
    place = prepare(kernel, variant, target)
    pairs = [[f"{name}={value}" for value in values] for name, values in macros.items()]
    found = compile_all(place.subject, place.build_root, list(product(*pairs)))
    return [_cured(built) for built in found]


def build_here(place: Workplace) -> Build:
    """Compile in a place that was prepared; a known failure brings its own cure."""
    return _cured(compile_variant(place.subject, place.build_root))


def _cured(built: Build) -> Build:
    found = find_symptoms(decision_program(), built.error) if built.error else []
    if not found:
        return built
    cure = " ".join(part for part in (found[0]["note"], found[0]["cure"]) if part)
    return built.model_copy(update={"cure": f"{found[0]['symptom']}: {cure}"})
