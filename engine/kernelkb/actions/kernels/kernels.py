"""Checks, benchmarks and profiles one variant of one kernel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple

from kernelkb.actions.history.reuse_bench import find_known_bench
from kernelkb.actions.history.session_log import log_result, log_steps
from kernelkb.actions.history.steps import (
    StepRunner,
    summarize_bench,
    summarize_build,
    summarize_check,
    summarize_profile,
)
from kernelkb.actions.kernels.building import build_prepared
from kernelkb.actions.kernels.built_variant import (
    FailureVerdict,
    OpenBench,
    add_sanitizer_findings,
    check_built,
    make_untimed_bench,
    open_bench,
    profile_built,
)
from kernelkb.actions.project.bench_target import BenchTarget, prepare, resolve_workload
from kernelkb.errors import BadValueError, KbError
from kernelkb.loading.kernels import select_variant
from kernelkb.measure.bench import bench
from kernelkb.measure.check import check
from kernelkb.measure.job_specs.reference_specs import is_reference
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.model.records.measurement import Bench, Build, Check, Profile


class BenchOptions(NamedTuple):
    """How the steps build, check and bench are run."""

    check_timeout_s: float = check.TIMEOUT_S
    bench_timeout_s: float = bench.TIMEOUT_S
    budget_s: float | None = None
    """Time for the timed batches, without compiling, checking and warming up; None: the default of
    ``kernelkb.measure.bench.bench``."""
    with_sanitizer: bool = False
    """Also run compute-sanitizer, and count its findings as wrong answers."""
    incumbent: bench.RivalVariant | None = None
    """Another variant, built and checked: one more baseline."""
    again: bool = True
    """Whether to measure what the record answers, too."""


class StepResults(NamedTuple):
    """What the steps gave; None after the step that failed."""

    build: Build
    check: Check | None = None
    bench: Bench | None = None


def check_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    timeout_s: float = check.TIMEOUT_S,
    with_sanitizer: bool = False,
) -> Build | Check:
    """Compare the outputs of a variant with the reference; return the Build if that failed."""
    bench_target = prepare(kernel, variant, target)
    built = build_prepared(bench_target)
    if built.error:
        return built
    steps = StepRunner()
    options = BenchOptions(check_timeout_s=timeout_s, with_sanitizer=with_sanitizer)
    checked = _run_check(steps, bench_target, built, None, options)
    return log_result(bench_target, "check", steps, checked, built)


def bench_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
    timeout_s: float = bench.TIMEOUT_S,
    budget_s: float | None = None,
    with_sanitizer: bool = False,
    against: str | None = None,
    *,
    change: str | None = None,
    again: bool = True,
) -> Bench:
    """Build, check and time a variant; only a correct one is timed.

    Args:
        kernel: Its name.
        variant: The variant's id.
        target: Where it runs.
        workload: The workload to time.
        timeout_s: Of the check and of the bench.
        budget_s: Time for the timed batches.
        with_sanitizer: Whether compute-sanitizer runs, too.
        against: Another variant to use as one more baseline.
        change: What was changed since the state before, in words.
        again: Whether to measure what the record answers: an equal state, or equal machine code.
    """
    bench_target = prepare(kernel, variant, target)._replace(said=change)
    return bench_prepared(
        bench_target,
        workload,
        timeout_s,
        budget_s,
        with_sanitizer=with_sanitizer,
        against=against,
        again=again,
    )


def bench_prepared(
    bench_target: BenchTarget,
    workload: str | None,
    timeout_s: float,
    budget_s: float | None,
    *,
    with_sanitizer: bool = False,
    against: str | None = None,
    again: bool = True,
) -> Bench:
    """Build, check and time a prepared variant, and log the steps to the open session."""
    name = resolve_workload(
        bench_target.subject.kernel_folder.kernel, bench_target.subject.variant.target, workload
    )
    incumbent = _prepare_incumbent(bench_target, against, name) if against else None
    is_plain = not (with_sanitizer or against)
    options = BenchOptions(
        timeout_s, timeout_s, budget_s, with_sanitizer, incumbent, again or not is_plain
    )
    return _bench_and_log(bench_target, name, options)[0]


def profile_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
    *,
    change: str | None = None,
) -> Bench | Profile:
    """Build, check, time and profile a variant; return the Bench if it has no valid time.

    ``change`` says in words what was changed since the state before.
    """
    bench_target = prepare(kernel, variant, target)._replace(said=change)
    name = resolve_workload(
        bench_target.subject.kernel_folder.kernel, bench_target.subject.variant.target, workload
    )
    timed, built = _bench_and_log(bench_target, name, BenchOptions(check_timeout_s=bench.TIMEOUT_S))
    if timed.candidate_us is None or timed.verdict == "incorrect":
        return timed
    steps = StepRunner()
    profiled = run_profile(steps, bench_target, built, timed)
    return log_result(bench_target, "profile", steps, profiled, built)


def _bench_and_log(
    bench_target: BenchTarget, workload: str, options: BenchOptions
) -> tuple[Bench, Build]:
    """Run the steps and log them, also those before an error."""
    steps = StepRunner()
    try:
        results = build_check_bench(steps, bench_target, workload, options)
    except KbError:
        log_steps(bench_target, "bench", steps)
        raise
    timed = log_result(
        bench_target,
        "bench",
        steps,
        get_or_make_bench(bench_target, workload, results),
        results.build,
    )
    return timed, results.build


def build_check_bench(
    steps: StepRunner, bench_target: BenchTarget, workload: str, options: BenchOptions
) -> StepResults:
    """Build, check and time a variant, one step after the other; the first failure ends it.

    Where there are cores for both, the bench's processes start beside those of the check.
    """
    name = bench_target.subject.variant.id
    built = steps.run(
        "build",
        name,
        lambda: build_prepared(bench_target),
        lambda build: summarize_build(bench_target, build),
    )
    if steps.has_failed:
        return StepResults(built)
    known = None if options.again else find_known_bench(bench_target, built, workload)
    if known is not None:
        return StepResults(built, bench=steps.run("bench", name, lambda: known, summarize_bench))
    with ExitStack() as bench_block:

        def start_bench() -> OpenBench:
            return bench_block.enter_context(_open_bench(bench_target, built, workload, options))

        ahead = start_bench() if bench.starts_ahead(bench_target.subject.machine) else None
        wait = ahead.started.wait_until_ready if ahead else check.go_on
        checked = _run_check(steps, bench_target, built, workload, options, wait)
        if steps.has_failed:
            return StepResults(built, checked)
        timed = steps.run("bench", name, lambda: (ahead or start_bench()).run(), summarize_bench)
    return StepResults(built, checked, timed)


def _open_bench(
    bench_target: BenchTarget, built: Build, workload: str, options: BenchOptions
) -> AbstractContextManager[OpenBench]:
    return open_bench(
        bench_target,
        built,
        workload,
        options.bench_timeout_s,
        options.budget_s,
        options.incumbent,
    )


def _run_check(
    steps: StepRunner,
    bench_target: BenchTarget,
    built: Build,
    workload: str | None,
    options: BenchOptions,
    before_start: Callable[[], None] = check.go_on,
) -> Check:
    def check_and_sanitize() -> Check:
        checked = check_built(bench_target, built, workload, options.check_timeout_s, before_start)
        return (
            add_sanitizer_findings(bench_target, built, checked)
            if options.with_sanitizer
            else checked
        )

    return steps.run("check", bench_target.subject.variant.id, check_and_sanitize, summarize_check)


def run_profile(
    steps: StepRunner, bench_target: BenchTarget, built: Build, timed: Bench
) -> Profile:
    """Profile a variant that was timed, as a step."""
    name = bench_target.subject.variant.id
    return steps.run(
        "profile", name, lambda: profile_built(bench_target, built, timed), summarize_profile
    )


def get_or_make_bench(bench_target: BenchTarget, workload: str, results: StepResults) -> Bench:
    """Return the Bench, or one that holds why the variant was not timed."""
    if results.bench:
        notes = results.check.notes if results.check else ()
        known = (*results.bench.warnings, *notes, *results.build.warnings)
        warnings = tuple(dict.fromkeys(known))
        return results.bench.model_copy(update={"warnings": warnings})
    built, checked = results.build, results.check
    if checked is None:
        return make_untimed_bench(
            bench_target, workload, "invalid", built.error, built.cure, built.seconds
        )
    verdict: FailureVerdict = (
        "incorrect" if checked.status in ("incorrect", "kernel-error") else "invalid"
    )
    detail = checked.detail or checked.status
    return make_untimed_bench(
        bench_target, workload, verdict, detail, checked.cure, checked.seconds
    )


def _prepare_incumbent(
    bench_target: BenchTarget, variant: str, workload: str
) -> bench.RivalVariant:
    """Build and check the variant to compare with.

    Raises:
        BadValueError: It does not compile, or its outputs are wrong.
    """
    incumbent = select_variant(
        bench_target.subject.kernel_folder.kernel, bench_target.subject.variant.target, variant
    )
    other = bench_target.with_variant(incumbent)
    built = build_prepared(other)
    problem = built.error
    if problem is None and not is_reference(other.subject.kernel_folder.kernel, incumbent):
        checked = check_built(other, built, workload)
        problem = None if checked.status == "correct" else checked.detail or checked.status
    if problem is not None:
        raise BadValueError(f"nothing can be compared with {variant}: {problem}")
    return other.subject, built
