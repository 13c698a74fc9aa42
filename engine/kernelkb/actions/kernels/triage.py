"""``kb triage``: takes a kernel through the whole loop, then measures the recommended fix."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from kernelkb.actions.advice.apply_history import keep_first_fix, read_history
from kernelkb.actions.advice.code_location import (
    AnsweredVariant,
    measure_counted_code,
    read_first_counters,
)
from kernelkb.actions.advice.recommend import complete_answer
from kernelkb.actions.history.outcomes import (
    FixVariant,
    are_comparable,
    choose_fix_variant,
    compare_to_prediction,
    make_decisions,
    make_unapplied_decisions,
)
from kernelkb.actions.history.record_result import (
    CallRecord,
    StepListener,
    StepRunner,
    ignore_step,
    machine_fields,
    record_result,
    record_steps,
    round_metrics,
    summarize_bench,
    summarize_environment,
    summarize_gate,
    summarize_recommendation,
)
from kernelkb.actions.kernels.measure_variant import (
    bench_built,
    build_check_bench,
    make_untimed_bench,
    run_profile,
)
from kernelkb.actions.project.bench_target import (
    BenchTarget,
    get_project_path,
    measure_language,
    require_workload,
    resolve_workload,
    validate_machine_for_kernel,
)
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.actions.sessions.sessions import choose_session
from kernelkb.decide.recommend import recommend
from kernelkb.errors import KbError, NextStep
from kernelkb.loading.kernels import load_kernel, select_variant
from kernelkb.measure.machine.cached_facts import read_peak_metrics
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.subject import BenchOptions, MeasurementSubject
from kernelkb.model.answers.recommendation import KernelAnswer
from kernelkb.model.answers.triage import FixOutcome, Triage, VariantResult
from kernelkb.model.base import Target
from kernelkb.model.records.measurement import Bench, Build, Environment, Profile, is_undecided
from kernelkb.model.records.session import Decision, SessionEntry
from kernelkb.record.measurements.compare import find_noise_reason, mark_noisy
from kernelkb.record.sessions import append_entry
from kernelkb.render.text.steps import print_answer


def triage(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
    listener: StepListener = ignore_step,
    *,
    change: str | None = None,
) -> Triage:
    """Take a kernel through environment, build, check, bench, gate, profile and recommend.

    A variant that applies the recommended fix goes through them, too. All is kept in a session.

    Args:
        kernel: The kernel's name.
        variant: The variant to start with; by default the first of the target.
        target: See ``bench_target.prepare``.
        workload: The workload to time; None for the target's default.
        listener: Called for each step as it starts and as it ends.
        change: What was changed since the state before, in words.

    Raises:
        KbError: A name is unknown; the kernel.yaml is wrong, or its reference fails.
    """
    started = time.monotonic()
    steps, source = StepRunner(listener), load_kernel(kernel, get_project_path())
    if workload is not None:
        require_workload(source.kernel, workload)
    check = partial(validate_machine_for_kernel, source.kernel, variant, target)
    environment = steps.run("environment", None, check, summarize_environment)
    if environment.machine is None:
        return _finish_triage(source.kernel.id, environment, steps, started)
    chosen = select_variant(source.kernel, environment.target, variant)
    subject = MeasurementSubject(source, chosen, environment.machine)
    bench_target = BenchTarget(subject, get_project_path())
    size = resolve_workload(source.kernel, environment.target, workload)
    results, choice = _evaluate_variants(bench_target, size, steps, change)
    outcome = _measure_fix(bench_target, results, choice, size, steps) if choice else None
    name = source.kernel.id
    return _finish_triage(name, environment, steps, started, results, outcome, choice)


def _evaluate_variants(
    bench_target: BenchTarget, workload: str, steps: StepRunner, change: str | None
) -> tuple[tuple[VariantResult, ...], FixVariant | None]:
    """Evaluate a variant, then the one that applies the recommended fix, if there is one."""
    first = evaluate_variant(bench_target, workload, steps, change)
    subject = bench_target.subject
    if first.answer is None:
        return (first,), None
    choice = choose_fix_variant(subject.kernel, subject.variant, first.answer)
    if choice is None:
        return (first,), None
    return (
        first,
        evaluate_variant(bench_target.with_variant(choice.variant), workload, steps),
    ), choice


def _measure_fix(
    bench_target: BenchTarget,
    results: tuple[VariantResult, ...],
    choice: FixVariant,
    workload: str,
    steps: StepRunner,
) -> FixOutcome | None:
    """Return the gain of the fix, timing the two variants directly if their benches differ."""
    before, after = results[0], results[-1]
    old, new = before.build, after.build
    if are_comparable(before, after) or old is None or new is None:
        return compare_to_prediction(before, after, choice)
    fixed = bench_target.with_variant(choice.variant)

    options = BenchOptions(rival=(bench_target.subject, old), only_rival=True)
    failed = False

    def bench_directly() -> Bench:
        nonlocal failed
        try:
            return bench_built(fixed, new, workload, options)
        except KbError as error:  # the earlier results are still to be recorded
            failed = True
            return make_untimed_bench(fixed, workload, "invalid", str(error), None, 0.0)

    timed = steps.run("compare", choice.variant.id, bench_directly, summarize_bench)
    if not failed:
        record = CallRecord(fixed, None, steps, options, new, timed)
        timed = record_result(record, timed)
    return compare_to_prediction(before, after, choice, timed)


def _finish_triage(
    kernel: str,
    environment: Environment,
    steps: StepRunner,
    started: float,
    results: tuple[VariantResult, ...] = (),
    outcome: FixOutcome | None = None,
    choice: FixVariant | None = None,
) -> Triage:
    decisions = (
        make_decisions(choice, outcome, results[0], results[-1])
        if choice
        else _make_advice_decisions(results)
    )
    result = Triage(
        kernel=kernel,
        target=environment.target,
        machine=environment.machine,
        steps=tuple(steps.records),
        examined=results,
        followed=outcome,
        decisions=decisions,
        outcome=_classify_outcome(results),
        next=_list_next_steps(kernel, environment.target, results),
        seconds=time.monotonic() - started,
    )
    if not results:
        return result
    path = append_entry(_make_session_entry(result, results), get_project_path() / "sessions")
    return result.model_copy(update={"session": str(path)})


def _classify_outcome(
    results: tuple[VariantResult, ...],
) -> Literal["done", "stopped", "could-not-run"]:
    if not results:
        return "could-not-run"
    answer = results[-1].answer
    return "stopped" if answer is None or answer["gate"]["verdict"] == "stop" else "done"


def _list_next_steps(
    kernel: str, target: Target, results: tuple[VariantResult, ...]
) -> tuple[str, ...]:
    """Return the steps after the last variant that was examined."""
    if not results:
        return (NextStep("env", {"target": target}, "lists what is missing").as_shell_words(),)
    last = results[-1]
    if last.answer is not None:
        return tuple(last.answer["next"])
    which = {"kernel": kernel, "variant": last.variant, "target": target}
    again = NextStep("triage", which, "examines it again")
    return (
        "correct what failed in the variant's source, by the cure above",
        again.as_shell_words(),
    )


def _make_advice_decisions(results: tuple[VariantResult, ...]) -> tuple[Decision, ...]:
    answer = results[-1].answer if results else None
    return make_unapplied_decisions(answer) if answer else ()


def _make_session_entry(result: Triage, results: tuple[VariantResult, ...]) -> SessionEntry:
    last, machine = results[-1], result.machine
    metrics = last.profile.metrics if last.profile else last.bench.metrics if last.bench else {}
    reason = result.followed.unmeasured if result.followed else None
    unmeasured = (f"the change was not measured: {reason}",) if reason else ()
    return SessionEntry(
        session=choose_session(result.kernel),
        at=datetime.now(UTC),
        goal=f"triage {result.kernel} on {result.target}",
        by="triage",
        kernel=result.kernel,
        variant=last.variant,
        target=result.target,
        **(machine_fields(machine) if machine else {}),
        steps=result.steps,
        metrics=round_metrics(metrics),
        decisions=result.decisions,
        went_wrong=(*(s.found for s in result.steps if s.status == "failure"), *unmeasured),
    )


_MEASURED = ("build", "bench", "profile")
"""Commands of ``kb`` that the steps of an evaluation do."""


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
    return evaluated.model_copy(update={"profile": profile, "answer": print_answer(answer)})


def _decide_on_profile(
    bench_target: BenchTarget, profile: Profile, built: Build, subject: AnsweredVariant
) -> KernelAnswer:
    project, name = bench_target.project, bench_target.subject.kernel.id
    counters = read_first_counters(Path(profile.report) if profile.report else None)
    metrics = {**profile.metrics, **measure_counted_code(counters)}
    history = read_history(project, name, attempt=built.attempt)
    answer = complete_answer(
        decide_from_metrics(bench_target, metrics),
        counters=counters,
        history=history,
        subject=subject,
        measured=_MEASURED,
        data=profile.data,
    )
    return keep_first_fix(project, answer, history)


def _describe_subject(bench_target: BenchTarget, workload: str, built: Build) -> AnsweredVariant:
    subject = bench_target.subject
    kernel, target = subject.kernel, subject.variant.target
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
        kernel=bench_target.subject.kernel.id,
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
