"""Check, bench and profile one variant of one kernel."""

from __future__ import annotations

from typing import Literal

from kernelkb.actions.bench_target import Workplace, prepare, workload_of
from kernelkb.actions.building import build_here
from kernelkb.actions.profile_stages import deeper_for
from kernelkb.actions.recording import recorded
from kernelkb.actions.rules_cache import decision_program
from kernelkb.actions.session_log import noted, written_down
from kernelkb.actions.steps import Steps, bench_said, build_said, check_said, profile_said
from kernelkb.decide.symptoms import find_symptoms
from kernelkb.errors import BadValueError, EnvironmentGapError, KbError
from kernelkb.loading.kernels import variant_of
from kernelkb.measure.bench import BUDGET_S, Incumbent
from kernelkb.measure.bench import TIMEOUT_S as BENCH_TIMEOUT_S
from kernelkb.measure.bench import bench as time_variant
from kernelkb.measure.check import TIMEOUT_S as CHECK_TIMEOUT_S
from kernelkb.measure.check import check as judge_variant
from kernelkb.measure.machine.device_lock import turn_on
from kernelkb.measure.machine.environment import Wanted
from kernelkb.measure.profile import profile as explain_variant
from kernelkb.measure.sanitize import sanitize as look_closer
from kernelkb.model.measurement import Bench, Build, Check, Profile

Verdict = Literal["incorrect", "invalid"]


def check(
    kernel: str,
    variant: str | None = None,
    target: Wanted = "auto",
    timeout_s: float = CHECK_TIMEOUT_S,
    sanitize: bool = False,
) -> Build | Check:
    """Judge a variant; returns the failed build where there is nothing to judge."""
    place = prepare(kernel, variant, target)
    built = build_here(place)
    if built.error:
        return built
    steps, name = Steps(), place.subject.variant.id

    def judged() -> Check:
        checked = check_here(place, built, None, timeout_s)
        return sanitized(place, built, checked) if sanitize else checked

    checked = steps.run("check", name, judged, check_said)
    return written_down(place, "check", steps, checked)


def bench(
    kernel: str,
    variant: str | None = None,
    target: Wanted = "auto",
    workload: str | None = None,
    timeout_s: float = BENCH_TIMEOUT_S,
    budget_s: float = BUDGET_S,
    sanitize: bool = False,
    against: str | None = None,
) -> Bench:
    """Build, check and time a variant; only a right one is timed.

    ``against`` names another variant, one more of what could be run instead.
    """
    place = prepare(kernel, variant, target)
    return bench_place(place, workload, timeout_s, budget_s, sanitize=sanitize, against=against)


def bench_place(
    place: Workplace,
    workload: str | None,
    timeout_s: float,
    budget_s: float,
    *,
    sanitize: bool = False,
    against: str | None = None,
) -> Bench:
    """Build, check and time in a place that was prepared."""
    name = workload_of(place.subject.source.kernel, place.subject.variant.target, workload)
    incumbent = _incumbent(place, against, name) if against else None
    steps = Steps()
    try:
        timed = _through(steps, place, name, timeout_s, budget_s, incumbent, sanitize=sanitize)
    except KbError:
        noted(place, "bench", steps)
        raise
    return written_down(place, "bench", steps, timed)


def _through(
    steps: Steps,
    place: Workplace,
    workload: str,
    timeout_s: float,
    budget_s: float,
    incumbent: Incumbent | None,
    *,
    sanitize: bool,
) -> Bench:
    """Build, check and time, one step after the other; the first that fails ends it."""
    name = place.subject.variant.id

    def judged() -> Check:
        checked = check_here(place, built, workload, timeout_s)
        return sanitized(place, built, checked) if sanitize else checked

    built = steps.run(
        "build", name, lambda: build_here(place), lambda made: build_said(place, made)
    )
    if built.error:
        return untimed(place, workload, "invalid", built.error, built.cure, built.seconds)
    checked = steps.run("check", name, judged, check_said)
    if checked.status != "correct":
        return refused(place, workload, checked)
    return steps.run(
        "bench",
        name,
        lambda: bench_here(place, built, workload, timeout_s, budget_s, incumbent),
        bench_said,
    )


def _incumbent(place: Workplace, variant: str, workload: str) -> Incumbent:
    """Build and check a variant that another one is compared with.

    Raises:
        BadValueError: It cannot be built, or is wrong: nothing can be compared with it.
    """
    found = variant_of(place.subject.source.kernel, place.subject.variant.target, variant)
    other = place.with_variant(found)
    built = build_here(other)
    why = built.error
    if why is None:
        checked = check_here(other, built, workload)
        why = None if checked.status == "correct" else checked.detail or checked.status
    if why is not None:
        raise BadValueError(f"nothing can be compared with {variant}: {why}")
    return other.subject, built


def profile(
    kernel: str,
    variant: str | None = None,
    target: Wanted = "auto",
    workload: str | None = None,
) -> Bench | Profile:
    """Build, check, time and explain a variant; returns the Bench that stopped it, if one did."""
    place = prepare(kernel, variant, target)
    timed = bench(kernel, place.subject.variant.id, place.subject.variant.target, workload)
    if timed.candidate_us is None or timed.verdict == "incorrect":
        return timed
    steps, name = Steps(), place.subject.variant.id
    built = build_here(place)
    seen = steps.run("profile", name, lambda: profile_here(place, built, timed), profile_said)
    return written_down(place, "profile", steps, seen)


def check_here(
    place: Workplace, built: Build, workload: str | None = None, timeout_s: float = CHECK_TIMEOUT_S
) -> Check:
    """Judge in a place that was prepared, on the small workloads and the one to be timed."""
    kernel, variant = place.subject.source.kernel, place.subject.variant
    small = list(kernel.workloads)[:2]
    names = (*small, workload_of(kernel, variant.target, workload))
    with turn_on(place.subject.machine):
        return judge_variant(place.subject, built, workloads=names, timeout_s=timeout_s)


def sanitized(place: Workplace, built: Build, checked: Check) -> Check:
    """Let compute-sanitizer look too; what it finds makes a right answer a lucky one.

    Raises:
        EnvironmentGapError: There is no GPU, or no compute-sanitizer.
    """
    if place.subject.machine.target != "cuda":
        gap = "compute-sanitizer looks at GPU code"
        raise EnvironmentGapError(gap, "add -fsanitize=address to the flags of a CPU variant")
    with turn_on(place.subject.machine):
        seen = look_closer(place.subject, built)
    if seen.detail is not None:
        raise EnvironmentGapError(seen.detail, seen.cure or "see kb env")
    if not seen.findings:
        return checked.model_copy(update={"sanitized": seen.looked})
    worst = seen.findings[0]
    found = find_symptoms(decision_program(), worst.said)
    cure = f"{found[0]['symptom']}: {found[0]['cure']}" if found else "see the kernel it names"
    detail = f"{worst.tool} found {worst.times}: {worst.said}"
    clean = tuple(tool for tool in seen.looked if tool not in {f.tool for f in seen.findings})
    return checked.model_copy(
        update={"status": "incorrect", "detail": detail, "cure": cure, "sanitized": clean}
    )


def bench_here(
    place: Workplace,
    built: Build,
    workload: str,
    timeout_s: float = BENCH_TIMEOUT_S,
    budget_s: float = BUDGET_S,
    incumbent: Incumbent | None = None,
    *,
    alone: bool = False,
) -> Bench:
    """Time in a place that was prepared, if asked next to the incumbent alone."""
    with turn_on(place.subject.machine) as unqueued:
        timed = time_variant(
            place.subject,
            built,
            workload=workload,
            timeout_s=timeout_s,
            budget_s=budget_s,
            incumbent=incumbent,
            alone=alone,
        )
    if unqueued:
        timed = timed.model_copy(update={"warnings": (*timed.warnings, unqueued)})
    rival = incumbent[0].variant if incumbent else None
    return timed.model_copy(update=recorded(place, built, timed, rival))


def profile_here(place: Workplace, built: Build, timed: Bench) -> Profile:
    """Explain in a place that was prepared."""
    records = place.project / ".kb" / "profiles"
    deeper = deeper_for(place.subject.machine)
    with turn_on(place.subject.machine) as unqueued:
        seen = explain_variant(place.subject, built, timed, deeper, records)
    if unqueued:
        seen = seen.model_copy(update={"evidence": (*seen.evidence, unqueued)})
    return seen.model_copy(update=recorded(place, built, seen))


def refused(place: Workplace, workload: str, checked: Check) -> Bench:
    """Return the Bench of a variant that is not right, and so was not timed."""
    wrong = checked.status in ("incorrect", "kernel-error")
    verdict: Verdict = "incorrect" if wrong else "invalid"
    detail = checked.detail or checked.status
    return untimed(place, workload, verdict, detail, checked.cure, checked.seconds)


def untimed(
    place: Workplace,
    workload: str,
    verdict: Verdict,
    detail: str | None,
    cure: str | None,
    seconds: float,
) -> Bench:
    """Return the Bench of a variant that was not timed."""
    return Bench(
        **place.subject.names,
        workload=workload,
        verdict=verdict,
        detail=detail,
        cure=cure,
        seconds=seconds,
    )
