"""Compiles one variant of one kernel, or many configurations of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from kernelkb.actions.history.record_attempt import keep_state
from kernelkb.actions.history.record_result import CallRecord, record_result
from kernelkb.actions.history.steps import StepRunner, summarize_build
from kernelkb.actions.project.bench_target import (
    BenchTarget,
    get_project_path,
    narrow_target,
    prepare,
    prepare_for_architecture,
)
from kernelkb.actions.project.hardware import find_architecture_spec
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.symptoms import find_failure
from kernelkb.errors import EnvironmentGapError, KbError, NextStep
from kernelkb.loading.kernels import load_kernel
from kernelkb.measure.build.build import build, build_all
from kernelkb.measure.build.folders import LOG_NAME, find_machine_code
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.machine.tools import find_nvcc
from kernelkb.measure.subject import DEFAULT_OPTIONS, BenchOptions
from kernelkb.model.answers.static_facts import StaticReport
from kernelkb.model.records.measurement import Build
from kernelkb.profiles.machine_code import analyse

_NOT_COMPILED = "it is compiled when it is called; kb bench does that, and kb build then reads it"


def build_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    arch: str | None = None,
    change: str | None = None,
) -> Build:
    """Compile a variant; a compiler error is a result. See ``_prepare_build`` for the errors.

    ``change`` says in words what was changed since the state before.
    """
    bench_target, steps = _prepare_build(kernel, variant, target, arch), StepRunner()
    options = BenchOptions(change=change)
    name = bench_target.subject.variant.id
    built = steps.run(
        "build",
        name,
        lambda: build_prepared(bench_target, options),
        lambda build, run: summarize_build(bench_target, build, run),
    )
    return record_result(CallRecord(bench_target, "build", steps, options, built), built)


def build_configurations(
    kernel: str,
    macros: Mapping[str, Sequence[str]],
    variant: str | None = None,
    target: TargetChoice = "auto",
    arch: str | None = None,
) -> list[Build]:
    """Compile every combination of the macros' values, in parallel."""
    bench_target = _prepare_build(kernel, variant, target, arch)
    pairs = [[f"{name}={value}" for value in values] for name, values in macros.items()]
    builds = build_all(bench_target.subject, bench_target.build_root, list(product(*pairs)))
    return [_add_cure(built) for built in builds]


def analyse_build(built: Build) -> StaticReport | None:
    """Return what the machine code of a build shows, in about 1 s; None without code for a GPU."""
    if built.target != "cuda" or built.status == "failed":
        return None
    paths = find_machine_code(built)
    if not paths:
        return {"kernels": [], "reason": _NOT_COMPILED}
    try:
        log = _read_log(built)
        folder = load_kernel(built.kernel, get_project_path()).folder
        found = [analyse(path, log, folder) for path in paths]
        reasons = [one["reason"] for one in found if one["reason"] is not None]
        return {
            "kernels": [kernel for one in found for kernel in one["kernels"]],
            "reason": reasons[0] if reasons else None,
        }
    except (KbError, OSError) as error:  # the build is whole all the same
        return {"kernels": [], "reason": str(error)}


def _read_log(built: Build) -> str:
    """Return what the compiler printed; empty where the code is compiled when it runs."""
    if built.status == "not-compiled":
        return ""
    return (Path(built.directory) / LOG_NAME).read_text(encoding="utf-8", errors="replace")


def _prepare_build(
    kernel: str, variant: str | None, target: TargetChoice, arch: str | None
) -> BenchTarget:
    """Prepare for the GPU of this machine, or for a named architecture without a GPU.

    Raises:
        UnknownNameError: No such kernel, variant or architecture.
        KnowledgeError: The kernel.yaml is wrong.
        BadValueError: An architecture for the CPU.
        EnvironmentGapError: The machine lacks something. With nvcc but no GPU, the next step is
            to compile for a named architecture.
    """
    if arch is not None:
        return prepare_for_architecture(kernel, variant, target, find_architecture_spec(arch).cc)
    try:
        return prepare(kernel, variant, target)
    except EnvironmentGapError as gap:
        narrowed = narrow_target(load_kernel(kernel, get_project_path()).kernel, variant, target)
        if narrowed != "cuda" or find_nvcc() is None:
            raise
        which = {"kernel": kernel, **({"variant": variant} if variant else {}), "arch": "9.0"}
        cross_build = NextStep("build", which, "compiles without a GPU")
        raise EnvironmentGapError(gap.gap, gap.cure, cross_build) from gap


def build_prepared(bench_target: BenchTarget, options: BenchOptions = DEFAULT_OPTIONS) -> Build:
    """Compile a prepared variant; a failure that a symptom describes gets its cure.

    The build also says what the history knows of it: see ``known_state``.
    """
    if not options.keeps:
        return _add_cure(build(bench_target.subject, bench_target.build_root))
    from kernelkb.actions.history.reuse_results import add_known_state  # loads SQLAlchemy

    kept = keep_state(bench_target, options.change)
    built = _add_cure(build(bench_target.subject, bench_target.build_root))
    update = {"attempt": kept.attempt, "unrecorded": kept.failure}
    return add_known_state(bench_target, built.model_copy(update=update))


def _add_cure(built: Build) -> Build:
    first = find_failure(load_compiled_rules(), built.error) if built.error else None
    if first is None:
        return built
    cure = " ".join(part for part in (first["note"], first["cure"]) if part)
    return built.model_copy(update={"cure": f"{first['symptom']}: {cure}"})
