"""The main job: a kernel through the whole loop, then the fix that was recommended, measured."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from kernelkb.actions.bench_target import (
    BenchTarget,
    get_project_path,
    resolve_workload,
    validate_machine_for_kernel,
)
from kernelkb.actions.built_variant import bench_built, make_untimed_bench
from kernelkb.actions.evaluate_variant import evaluate_variant
from kernelkb.actions.fix_outcome import (
    FixVariant,
    are_comparable,
    choose_fix_variant,
    compare_to_prediction,
    make_decisions,
    make_unapplied_decisions,
)
from kernelkb.actions.session_log import machine_fields, round_metrics
from kernelkb.actions.sessions import choose_session
from kernelkb.actions.steps import (
    StepListener,
    StepRunner,
    ignore_step,
    summarize_bench,
    summarize_environment,
)
from kernelkb.errors import KbError
from kernelkb.loading.kernels import load_kernel, select_variant
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.measurement import Bench, Environment
from kernelkb.model.session import Decision, SessionEntry
from kernelkb.model.triage import FixOutcome, Triage, VariantResult
from kernelkb.record.sessions import append_entry


def triage(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
    listener: StepListener = ignore_step,
) -> Triage:
    """Take a kernel through environment, build, check, bench, gate, profile and recommend.

    Where a variant applies the recommended fix, it goes through the same, and the report says what
    was predicted and what came of it. All is appended to the project's sessions.

    Args:
        kernel: The kernel's name.
        variant: Where to start; the plain variant by default.
        target: See ``workplace.prepare``.
        workload: What to time; the target's default when None.
        listener: Told of each step as it starts and as it ends.

    Raises:
        UnknownNameError: No such kernel, variant or workload.
        KnowledgeError: The kernel.yaml is wrong.
        KbError: The kernel's reference or tolerance is at fault.
    """
    started = time.monotonic()
    source = load_kernel(kernel, get_project_path())
    resolve_workload(source.kernel, "cpu", workload)
    steps = StepRunner(listener)
    check = partial(validate_machine_for_kernel, source.kernel, variant, target)
    found = steps.run("environment", None, check, summarize_environment)
    if found.machine is None:
        return _finish_triage(kernel, found, steps, started)
    chosen = select_variant(source.kernel, found.target, variant)
    place = BenchTarget(MeasurementSubject(source, chosen, found.machine), get_project_path())
    name = resolve_workload(source.kernel, found.target, workload)
    examined, choice = _evaluate_variants(place, name, steps)
    followed = _measure_fix(place, examined, choice, name, steps) if choice else None
    return _finish_triage(kernel, found, steps, started, examined, followed, choice)


def _evaluate_variants(
    place: BenchTarget, workload: str, steps: StepRunner
) -> tuple[tuple[VariantResult, ...], FixVariant | None]:
    """Examine a variant, then the one that applies what was recommended, if there is one."""
    first = evaluate_variant(place, workload, steps)
    subject = place.subject
    if first.answer is None:
        return (first,), None
    choice = choose_fix_variant(subject.kernel_folder.kernel, subject.variant, first.answer)
    if choice is None:
        return (first,), None
    return (first, evaluate_variant(place.with_variant(choice.variant), workload, steps)), choice


def _measure_fix(
    place: BenchTarget,
    examined: tuple[VariantResult, ...],
    choice: FixVariant,
    workload: str,
    steps: StepRunner,
) -> FixOutcome | None:
    """Say what the change gave, if need be by timing the one next to the other."""
    before, after = examined[0], examined[-1]
    old, new = before.build, after.build
    if are_comparable(before, after) or old is None or new is None:
        return compare_to_prediction(before, after, choice)
    mine = place.with_variant(choice.variant)

    def bench_directly() -> Bench:
        try:
            return bench_built(mine, new, workload, incumbent=(place.subject, old), alone=True)
        except KbError as error:  # what was found before is still to be recorded
            return make_untimed_bench(mine, workload, "invalid", str(error), None, 0.0)

    timed = steps.run("compare", choice.variant.id, bench_directly, summarize_bench)
    return compare_to_prediction(before, after, choice, timed)


def _finish_triage(
    kernel: str,
    found: Environment,
    steps: StepRunner,
    started: float,
    examined: tuple[VariantResult, ...] = (),
    followed: FixOutcome | None = None,
    choice: FixVariant | None = None,
) -> Triage:
    made = (
        make_decisions(choice, followed, examined[0], examined[-1])
        if choice
        else _make_advice_decisions(examined)
    )
    result = Triage(
        kernel=kernel,
        target=found.target,
        machine=found.machine,
        steps=tuple(steps.records),
        examined=examined,
        followed=followed,
        decisions=made,
        outcome=_classify_outcome(examined),
        seconds=time.monotonic() - started,
    )
    if not examined:
        return result
    path = append_entry(_make_session_entry(result, examined), get_project_path() / "sessions")
    return result.model_copy(update={"session": str(path)})


def _classify_outcome(
    examined: tuple[VariantResult, ...],
) -> Literal["done", "stopped", "could-not-run"]:
    if not examined:
        return "could-not-run"
    answer = examined[-1].answer
    return "stopped" if answer is None or answer["gate"]["verdict"] == "stop" else "done"


def _make_advice_decisions(examined: tuple[VariantResult, ...]) -> tuple[Decision, ...]:
    answer = examined[-1].answer if examined else None
    return make_unapplied_decisions(answer) if answer else ()


def _make_session_entry(result: Triage, examined: tuple[VariantResult, ...]) -> SessionEntry:
    last, machine = examined[-1], result.machine
    metrics = last.profile.metrics if last.profile else last.bench.metrics if last.bench else {}
    why = result.followed.unmeasured if result.followed else None
    apart = (f"the change was not measured: {why}",) if why else ()
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
        went_wrong=(*(s.found for s in result.steps if s.status == "failure"), *apart),
    )
