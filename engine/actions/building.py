"""Build one variant of one kernel, or many configurations of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from kernelkb.actions.bench_target import (
    BenchTarget,
    get_project_path,
    narrow_target,
    prepare,
    prepare_for_architecture,
)
from kernelkb.actions.hardware import find_architecture_spec
from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.actions.session_log import log_result
from kernelkb.actions.steps import StepRunner, summarize_build
from kernelkb.decide.symptoms import find_symptoms
from kernelkb.errors import EnvironmentGapError, NextStep
from kernelkb.loading.kernels import load_kernel
from kernelkb.measure.build.build import build as compile_variant
from kernelkb.measure.build.build import build_all as compile_all
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.machine.tools import find_nvcc
from kernelkb.model.measurement import Build


def build_variant(
    kernel: str, variant: str | None = None, target: TargetChoice = "auto", arch: str | None = None
) -> Build:
    """Compile a variant. A compiler error is a result; see ``_place`` for what is raised."""
    place, steps = _prepare_build(kernel, variant, target, arch), StepRunner()
    name = place.subject.variant.id
    built = steps.run(
        "build", name, lambda: build_prepared(place), lambda made: summarize_build(place, made)
    )
    return log_result(place, "build", steps, built)


def build_configurations(
    kernel: str,
    macros: Mapping[str, Sequence[str]],
    variant: str | None = None,
    target: TargetChoice = "auto",
    arch: str | None = None,
) -> list[Build]:
    """Compile every combination of some macros' values, side by side."""
    place = _prepare_build(kernel, variant, target, arch)
    pairs = [[f"{name}={value}" for value in values] for name, values in macros.items()]
    found = compile_all(place.subject, place.build_root, list(product(*pairs)))
    return [_add_cure(built) for built in found]


def _prepare_build(
    kernel: str, variant: str | None, target: TargetChoice, arch: str | None
) -> BenchTarget:
    """Prepare for the GPU that is here, or for an architecture without one.

    Raises:
        UnknownNameError: No such kernel, variant or architecture.
        KnowledgeError: The kernel.yaml is wrong.
        BadValueError: An architecture for the CPU.
        EnvironmentGapError: The machine lacks something. Where nvcc is there and the GPU is not,
            the cure says that an architecture would be enough.
    """
    if arch is not None:
        return prepare_for_architecture(kernel, variant, target, find_architecture_spec(arch).cc)
    try:
        return prepare(kernel, variant, target)
    except EnvironmentGapError as gap:
        wanted = narrow_target(load_kernel(kernel, get_project_path()).kernel, variant, target)
        if wanted != "cuda" or find_nvcc() is None:
            raise
        which = {"kernel": kernel, **({"variant": variant} if variant else {}), "arch": "9.0"}
        cross_build = NextStep("build", which, "compiles without a GPU")
        raise EnvironmentGapError(gap.gap, gap.cure, cross_build) from gap


def build_prepared(place: BenchTarget) -> Build:
    """Compile in a place that was prepared; a known failure brings its own cure."""
    return _add_cure(compile_variant(place.subject, place.build_root))


def _add_cure(built: Build) -> Build:
    found = find_symptoms(load_compiled_rules(), built.error) if built.error else []
    if not found:
        return built
    cure = " ".join(part for part in (found[0]["note"], found[0]["cure"]) if part)
    return built.model_copy(update={"cure": f"{found[0]['symptom']}: {cure}"})
