"""``kb triage``: takes a kernel through the whole loop, then measures the recommended fix."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from kernelkb.actions.history.fix_outcome import (
    FixVariant,
    are_comparable,
    choose_fix_variant,
    compare_to_prediction,
    make_decisions,
    make_unapplied_decisions,
)
from kernelkb.actions.history.record_result import (
    CallRecord,
    machine_fields,
    record_result,
    round_metrics,
)
from kernelkb.actions.history.steps import (
    StepListener,
    StepRunner,
    ignore_step,
    summarize_bench,
    summarize_environment,
)
from kernelkb.actions.kernels.built_variant import bench_built, make_untimed_bench
from kernelkb.actions.kernels.triage_variant import evaluate_variant
from kernelkb.actions.project.bench_target import (
    BenchTarget,
    get_project_path,
    require_workload,
    resolve_workload,
    validate_machine_for_kernel,
)
from kernelkb.actions.sessions.sessions import choose_session
from kernelkb.errors import KbError, NextStep
from kernelkb.loading.kernels import load_kernel, select_variant
from kernelkb.measure.bench_options import BenchOptions
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.answers.triage import FixOutcome, Triage, VariantResult
from kernelkb.model.base import Target
from kernelkb.model.records.measurement import Bench, Environment
from kernelkb.model.records.session import Decision, SessionEntry
from kernelkb.record.sessions import append_entry


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
    choice = choose_fix_variant(subject.kernel_folder.kernel, subject.variant, first.answer)
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
