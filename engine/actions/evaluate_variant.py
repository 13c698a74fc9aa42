"""One variant through build, check, bench, gate, profile and recommend; a failure ends it."""

from __future__ import annotations

from kernelkb.actions import kernels
from kernelkb.actions.bench_target import BenchTarget
from kernelkb.actions.building import build_prepared
from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.actions.steps import (
    StepRunner,
    summarize_bench,
    summarize_build,
    summarize_check,
    summarize_gate,
    summarize_profile,
    summarize_recommendation,
)
from kernelkb.decide.recommend import recommend
from kernelkb.model.measurement import Bench
from kernelkb.model.recommendation import KernelAnswer
from kernelkb.model.triage import VariantResult
from kernelkb.record.measurements.compare import find_noise_reason


def evaluate_variant(place: BenchTarget, workload: str, steps: StepRunner) -> VariantResult:
    """Take one variant as far as it goes.

    Args:
        place: The kernel, the variant, the machine.
        workload: What to time.
        steps: Where each step is run and reported.
    """
    name = place.subject.variant.id
    seen = VariantResult(variant=name)
    built = steps.run(
        "build", name, lambda: build_prepared(place), lambda made: summarize_build(place, made)
    )
    seen = seen.model_copy(update={"build": built})
    if steps.has_failed:
        return seen
    right = steps.run(
        "check", name, lambda: kernels.check_built(place, built, workload), summarize_check
    )
    seen = seen.model_copy(update={"check": right})
    if steps.has_failed:
        return seen
    timed = steps.run(
        "bench",
        name,
        lambda: drop_noisy_speedup(kernels.bench_built(place, built, workload)),
        summarize_bench,
    )
    seen = seen.model_copy(update={"bench": timed})
    if steps.has_failed:
        return seen
    steps.run("gate", name, lambda: decide_from_metrics(place, timed.metrics), summarize_gate)
    why = steps.run(
        "profile", name, lambda: kernels.profile_built(place, built, timed), summarize_profile
    )
    advice = steps.run(
        "recommend", name, lambda: decide_from_metrics(place, why.metrics), summarize_recommendation
    )
    return seen.model_copy(update={"profile": why, "answer": advice})


def decide_from_metrics(place: BenchTarget, metrics: dict[str, float]) -> KernelAnswer:
    """Decide on metrics that were measured here."""
    machine = place.subject.machine
    return recommend(
        load_compiled_rules(),
        metrics,
        target=machine.target,
        device=machine.device,
        kernel=place.subject.kernel_folder.kernel.id,
    )


def drop_noisy_speedup(timed: Bench) -> Bench:
    """Leave the speedup out of the metrics of a bench that was disturbed: nothing decides on it.

    Its times stay. They are too long rather than too short, so no roof is reached by them.
    """
    if find_noise_reason(timed) is None:
        return timed
    kept = {name: value for name, value in timed.metrics.items() if name != "speedup"}
    return timed.model_copy(update={"metrics": kept})
