"""Check, bench and profile one variant of one kernel."""

from __future__ import annotations

from typing import Literal

from kernelkb.actions.bench_target import BenchTarget, prepare, resolve_workload
from kernelkb.actions.building import build_prepared
from kernelkb.actions.profile_stages import make_next_counters
from kernelkb.actions.recording import record_result
from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.actions.session_log import log_result, log_steps
from kernelkb.actions.steps import (
    StepRunner,
    summarize_bench,
    summarize_build,
    summarize_check,
    summarize_profile,
)
from kernelkb.decide.symptoms import find_symptoms
from kernelkb.errors import BadValueError, EnvironmentGapError, KbError
from kernelkb.loading.kernels import select_variant
from kernelkb.measure.bench import BUDGET_S, RivalVariant
from kernelkb.measure.bench import TIMEOUT_S as BENCH_TIMEOUT_S
from kernelkb.measure.bench import bench as time_variant
from kernelkb.measure.check import TIMEOUT_S as CHECK_TIMEOUT_S
from kernelkb.measure.check import check as judge_variant
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.profile import profile as explain_variant
from kernelkb.measure.sanitize import sanitize as look_closer
from kernelkb.model.measurement import Bench, Build, Check, Profile

FailureVerdict = Literal["incorrect", "invalid"]


def check_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    timeout_s: float = CHECK_TIMEOUT_S,
    with_sanitizer: bool = False,
) -> Build | Check:
    """Judge a variant; returns the failed build where there is nothing to judge."""
    place = prepare(kernel, variant, target)
    built = build_prepared(place)
    if built.error:
        return built
    steps, name = StepRunner(), place.subject.variant.id

    def run_check() -> Check:
        checked = check_built(place, built, None, timeout_s)
        return add_sanitizer_findings(place, built, checked) if with_sanitizer else checked

    checked = steps.run("check", name, run_check, summarize_check)
    return log_result(place, "check", steps, checked)


def bench_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
    timeout_s: float = BENCH_TIMEOUT_S,
    budget_s: float = BUDGET_S,
    with_sanitizer: bool = False,
    against: str | None = None,
) -> Bench:
    """Build, check and time a variant; only a right one is timed.

    ``against`` names another variant, one more of what could be run instead.
    """
    place = prepare(kernel, variant, target)
    return bench_prepared(
        place, workload, timeout_s, budget_s, with_sanitizer=with_sanitizer, against=against
    )


def bench_prepared(
    place: BenchTarget,
    workload: str | None,
    timeout_s: float,
    budget_s: float,
    *,
    with_sanitizer: bool = False,
    against: str | None = None,
) -> Bench:
    """Build, check and time in a place that was prepared."""
    name = resolve_workload(
        place.subject.kernel_folder.kernel, place.subject.variant.target, workload
    )
    incumbent = _prepare_incumbent(place, against, name) if against else None
    steps = StepRunner()
    try:
        timed = _build_check_and_bench(
            steps, place, name, timeout_s, budget_s, incumbent, with_sanitizer=with_sanitizer
        )
    except KbError:
        log_steps(place, "bench", steps)
        raise
    return log_result(place, "bench", steps, timed)


def _build_check_and_bench(
    steps: StepRunner,
    place: BenchTarget,
    workload: str,
    timeout_s: float,
    budget_s: float,
    incumbent: RivalVariant | None,
    *,
    with_sanitizer: bool,
) -> Bench:
    """Build, check and time, one step after the other; the first that fails ends it."""
    name = place.subject.variant.id

    def run_check() -> Check:
        checked = check_built(place, built, workload, timeout_s)
        return add_sanitizer_findings(place, built, checked) if with_sanitizer else checked

    built = steps.run(
        "build", name, lambda: build_prepared(place), lambda made: summarize_build(place, made)
    )
    if built.error:
        return make_untimed_bench(
            place, workload, "invalid", built.error, built.cure, built.seconds
        )
    checked = steps.run("check", name, run_check, summarize_check)
    if checked.status != "correct":
        return make_failed_check_bench(place, workload, checked)
    return steps.run(
        "bench",
        name,
        lambda: bench_built(place, built, workload, timeout_s, budget_s, incumbent),
        summarize_bench,
    )


def _prepare_incumbent(place: BenchTarget, variant: str, workload: str) -> RivalVariant:
    """Build and check a variant that another one is compared with.

    Raises:
        BadValueError: It cannot be built, or is wrong: nothing can be compared with it.
    """
    found = select_variant(
        place.subject.kernel_folder.kernel, place.subject.variant.target, variant
    )
    other = place.with_variant(found)
    built = build_prepared(other)
    why = built.error
    if why is None:
        checked = check_built(other, built, workload)
        why = None if checked.status == "correct" else checked.detail or checked.status
    if why is not None:
        raise BadValueError(f"nothing can be compared with {variant}: {why}")
    return other.subject, built


def profile_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
) -> Bench | Profile:
    """Build, check, time and explain a variant; returns the Bench that stopped it, if one did."""
    place = prepare(kernel, variant, target)
    timed = bench_variant(kernel, place.subject.variant.id, place.subject.variant.target, workload)
    if timed.candidate_us is None or timed.verdict == "incorrect":
        return timed
    steps, name = StepRunner(), place.subject.variant.id
    built = build_prepared(place)
    seen = steps.run("profile", name, lambda: profile_built(place, built, timed), summarize_profile)
    return log_result(place, "profile", steps, seen)


def check_built(
    place: BenchTarget,
    built: Build,
    workload: str | None = None,
    timeout_s: float = CHECK_TIMEOUT_S,
) -> Check:
    """Judge in a place that was prepared, on the small workloads and the one to be timed."""
    kernel, variant = place.subject.kernel_folder.kernel, place.subject.variant
    small = list(kernel.workloads)[:2]
    names = (*small, resolve_workload(kernel, variant.target, workload))
    with lock_device(place.subject.machine):
        return judge_variant(place.subject, built, workloads=names, timeout_s=timeout_s)


def add_sanitizer_findings(place: BenchTarget, built: Build, checked: Check) -> Check:
    """Let compute-sanitizer look too; what it finds makes a right answer a lucky one.

    Raises:
        EnvironmentGapError: There is no GPU, or no compute-sanitizer.
    """
    if place.subject.machine.target != "cuda":
        gap = "compute-sanitizer looks at GPU code"
        raise EnvironmentGapError(gap, "add -fsanitize=address to the flags of a CPU variant")
    with lock_device(place.subject.machine):
        seen = look_closer(place.subject, built)
    if seen.reason is not None:
        raise EnvironmentGapError(seen.reason, seen.cure)
    if not seen.findings:
        return checked.model_copy(update={"sanitized": seen.finished_tools})
    worst = seen.findings[0]
    found = find_symptoms(load_compiled_rules(), worst.message)
    cure = f"{found[0]['symptom']}: {found[0]['cure']}" if found else "see the kernel it names"
    detail = f"{worst.tool} found {worst.error_count}: {worst.message}"
    clean = tuple(
        tool for tool in seen.finished_tools if tool not in {f.tool for f in seen.findings}
    )
    return checked.model_copy(
        update={"status": "incorrect", "detail": detail, "cure": cure, "sanitized": clean}
    )


def bench_built(
    place: BenchTarget,
    built: Build,
    workload: str,
    timeout_s: float = BENCH_TIMEOUT_S,
    budget_s: float = BUDGET_S,
    incumbent: RivalVariant | None = None,
    *,
    alone: bool = False,
) -> Bench:
    """Time in a place that was prepared, if asked next to the incumbent alone."""
    with lock_device(place.subject.machine) as unqueued:
        timed = time_variant(
            place.subject,
            built,
            workload=workload,
            timeout_s=timeout_s,
            budget_s=budget_s,
            rival_variant=incumbent,
            skip_other_rivals=alone,
        )
    if unqueued:
        timed = timed.model_copy(update={"warnings": (*timed.warnings, unqueued)})
    rival = incumbent[0].variant if incumbent else None
    return timed.model_copy(update=record_result(place, built, timed, rival))


def profile_built(place: BenchTarget, built: Build, timed: Bench) -> Profile:
    """Explain in a place that was prepared."""
    records = place.project / ".kb" / "profiles"
    deeper = make_next_counters(place.subject.machine)
    with lock_device(place.subject.machine) as unqueued:
        seen = explain_variant(place.subject, built, timed, deeper, records)
    if unqueued:
        seen = seen.model_copy(update={"evidence": (*seen.evidence, unqueued)})
    return seen.model_copy(update=record_result(place, built, seen))


def make_failed_check_bench(place: BenchTarget, workload: str, checked: Check) -> Bench:
    """Return the Bench of a variant that is not right, and so was not timed."""
    wrong = checked.status in ("incorrect", "kernel-error")
    verdict: FailureVerdict = "incorrect" if wrong else "invalid"
    detail = checked.detail or checked.status
    return make_untimed_bench(place, workload, verdict, detail, checked.cure, checked.seconds)


def make_untimed_bench(
    place: BenchTarget,
    workload: str,
    verdict: FailureVerdict,
    detail: str | None,
    cure: str | None,
    seconds: float,
) -> Bench:
    """Return the Bench of a variant that was not timed."""
    return Bench(
        **place.subject.identity_fields,
        workload=workload,
        verdict=verdict,
        detail=detail,
        cure=cure,
        seconds=seconds,
    )
