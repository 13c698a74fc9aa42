"""Takes one variant through build, check, bench, gate, profile and recommend, for ``kb triage``."""

from __future__ import annotations

from pathlib import Path

from kernelkb.actions.advice.apply_history import remember_and_keep
from kernelkb.actions.advice.edit_location import AnsweredVariant, add_change_place
from kernelkb.actions.advice.source_lines import decide_with_lines
from kernelkb.actions.history.record_result import CallRecord, record_result, record_steps
from kernelkb.actions.history.steps import StepRunner, summarize_gate, summarize_recommendation
from kernelkb.actions.kernels.kernels import build_check_bench, run_profile
from kernelkb.actions.project.bench_target import BenchTarget
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.actions.project.variant_language import measure_language
from kernelkb.decide.recommend import recommend
from kernelkb.measure.bench_options import BenchOptions
from kernelkb.measure.machine.kept_peaks import read_peak_metrics
from kernelkb.model.answers.recommendation import KernelAnswer
from kernelkb.model.answers.triage import VariantResult
from kernelkb.model.records.measurement import Bench, Build, Profile
from kernelkb.model.records.verdict import is_undecided
from kernelkb.record.measurements.compare import find_noise_reason, mark_noisy

_MEASURED = ("kb build", "kb bench", "kb profile")
"""Commands that the steps of an evaluation do."""


def evaluate_variant(
    bench_target: BenchTarget, workload: str, steps: StepRunner, change: str | None = None
) -> VariantResult:
    """Run all steps of one variant; the first that fails ends it.

    Args:
        bench_target: The kernel, the variant, the machine.
        workload: Name of the workload to time.
        steps: Runs and records each step.
        change: What was changed since the state before, in words.

    Returns:
        The result of each step; None for the steps that were not reached.
    """
    name = bench_target.subject.variant.id
    options = BenchOptions(change=change)
    results = build_check_bench(steps, bench_target, workload, options)
    record = CallRecord(bench_target, None, steps, options, results.build, results.bench)
    if results.bench is None:
        record_steps(record)
        return VariantResult(variant=name, build=results.build, check=results.check)
    timed = drop_noisy_speedup(record_result(record, results.bench))
    evaluated = VariantResult(variant=name, build=results.build, check=results.check, bench=timed)
    if steps.has_failed:
        return evaluated
    steps.run(
        "gate", name, lambda: decide_from_metrics(bench_target, timed.metrics), summarize_gate
    )
    profile = run_profile(record, timed)
    subject = _describe_subject(bench_target, workload, results.build)
    answer = steps.run(
        "recommend",
        name,
        lambda: _decide_on_profile(bench_target, profile, results.build, subject),
        summarize_recommendation,
    )
    return evaluated.model_copy(update={"profile": profile, "answer": answer})


def _decide_on_profile(
    bench_target: BenchTarget, profile: Profile, built: Build, subject: AnsweredVariant
) -> KernelAnswer:
    answer = decide_with_lines(
        Path(profile.report) if profile.report else None,
        lambda code: remember_and_keep(
            bench_target.project,
            decide_from_metrics(bench_target, {**profile.metrics, **code}),
            attempt=built.attempt,
        ),
    )
    return add_change_place(answer, subject, _MEASURED)


def _describe_subject(bench_target: BenchTarget, workload: str, built: Build) -> AnsweredVariant:
    subject = bench_target.subject
    kernel, target = subject.kernel_folder.kernel, subject.variant.target
    is_default = kernel.default_workload.get(target) == workload
    named = None if is_default else workload
    return AnsweredVariant(subject.kernel_folder, subject.variant, named, built.loops)


def decide_from_metrics(bench_target: BenchTarget, metrics: dict[str, float]) -> KernelAnswer:
    """Return the recommendation for metrics that were measured on this machine."""
    machine, variant = bench_target.subject.machine, bench_target.subject.variant
    return recommend(
        load_compiled_rules(),
        {**measure_language(variant), **metrics},
        target=machine.target,
        device=machine.device,
        kernel=bench_target.subject.kernel_folder.kernel.id,
        peaks=read_peak_metrics(machine.device),
    )


def drop_noisy_speedup(timed: Bench) -> Bench:
    """Replace the speedup of a disturbed bench by ``noisy_timing``: nothing is decided on it.

    The times stay: a disturbance makes them longer, so they never claim that a roof is reached. The
    speedup of a bench that is ``slower`` nevertheless stays, too.
    """
    if not is_undecided(timed.verdict) or find_noise_reason(timed) is None:
        return timed
    return timed.model_copy(update={"metrics": mark_noisy(timed.metrics)})
