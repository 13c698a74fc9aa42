"""Runs one step on a variant that is built: check, sanitize, bench or profile.

Each waits for the device; nothing is recorded here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kernelkb.actions.project.bench_target import BenchTarget, resolve_workload
from kernelkb.actions.project.profile_stages import make_next_counters
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.symptoms import find_failure
from kernelkb.errors import EnvironmentGapError
from kernelkb.measure.bench import bench
from kernelkb.measure.bench_options import DEFAULT_OPTIONS, BenchOptions
from kernelkb.measure.check import check
from kernelkb.measure.check.sanitize import sanitize
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.measure.profile.profile import profile, static_metrics
from kernelkb.model.records.measurement import Bench, Build, Check, Profile
from kernelkb.model.records.verdict import FailureVerdict

_SMALL_WORKLOADS_COUNT = 2
"""A kernel names its smallest workloads first; these are checked besides the one to be timed."""


def check_built(
    bench_target: BenchTarget,
    built: Build,
    workload: str | None = None,
    timeout_s: float = DEFAULT_OPTIONS.timeout_s,
    before_start: Callable[[], None] = check.go_on,
) -> Check:
    """Check a built variant on the two smallest workloads and the one to be timed.

    ``before_start`` is called when the judge was started, and returns when it may go on.
    """
    kernel, variant = bench_target.subject.kernel_folder.kernel, bench_target.subject.variant
    small = list(kernel.workloads)[:_SMALL_WORKLOADS_COUNT]
    names = (*small, resolve_workload(kernel, variant.target, workload))
    with lock_device(bench_target.subject.machine):
        return check.check(
            bench_target.subject,
            built,
            workloads=names,
            timeout_s=timeout_s,
            before_start=before_start,
        )


def add_sanitizer_findings(bench_target: BenchTarget, built: Build, checked: Check) -> Check:
    """Run compute-sanitizer; a finding turns ``correct`` into ``incorrect``.

    Raises:
        EnvironmentGapError: There is no GPU, or no compute-sanitizer.
    """
    if bench_target.subject.machine.target != "cuda":
        gap = "compute-sanitizer checks GPU code"
        raise EnvironmentGapError(gap, "add -fsanitize=address to the flags of a CPU variant")
    with lock_device(bench_target.subject.machine):
        report = sanitize(bench_target.subject, built)
    if report.reason is not None:
        raise EnvironmentGapError(report.reason, report.cure)
    if not report.findings:
        return checked.model_copy(update={"sanitized": report.finished_tools})
    worst = report.findings[0]
    symptom = find_failure(load_compiled_rules(), worst.message)
    cure = f"{symptom['symptom']}: {symptom['cure']}" if symptom else None
    tools_with_findings = {finding.tool for finding in report.findings}
    return checked.model_copy(
        update={
            "status": "incorrect",
            "detail": f"{worst.tool} found {worst.error_count}: {worst.message}",
            "cure": cure or "see the kernel it names",
            "sanitized": tuple(t for t in report.finished_tools if t not in tools_with_findings),
        }
    )


class OpenBench(NamedTuple):
    """A bench whose processes were started, on a device that is locked."""

    built: Build
    started: bench.StartedBench
    options: BenchOptions
    queue_warning: str | None

    def run(self) -> Bench:
        """Time the built variant; the metrics hold what its machine code shows, too."""
        timed = self.started.run(self.options.timeout_s)
        if self.queue_warning:
            timed = timed.model_copy(update={"warnings": (*timed.warnings, self.queue_warning)})
        if timed.metrics:
            metrics = {**static_metrics(self.built), **timed.metrics}
            timed = timed.model_copy(update={"metrics": metrics})
        return timed


@contextmanager
def open_bench(
    bench_target: BenchTarget,
    built: Build,
    workload: str,
    options: BenchOptions = DEFAULT_OPTIONS,
) -> Iterator[OpenBench]:
    """Hold the device in a block, and start the processes of a bench there, to check before it."""
    subject = bench_target.subject
    with lock_device(subject.machine) as queue_warning:
        job = bench.make_job(subject, built, workload, options)
        with bench.start_bench(subject, workload, job) as started:
            yield OpenBench(built, started, options, queue_warning)


def bench_built(
    bench_target: BenchTarget,
    built: Build,
    workload: str,
    options: BenchOptions = DEFAULT_OPTIONS,
) -> Bench:
    """Time a built variant."""
    with open_bench(bench_target, built, workload, options) as opened:
        return opened.run()


def profile_built(bench_target: BenchTarget, built: Build, timed: Bench) -> Profile:
    """Profile a built variant that was timed."""
    raw_folder = bench_target.project / ".kb" / "profiles"
    next_counters = make_next_counters(bench_target.subject.machine)
    with lock_device(bench_target.subject.machine) as queue_warning:
        profiled = profile(bench_target.subject, built, timed, next_counters, raw_folder)
    evidence = (*profiled.evidence, *filter(None, [queue_warning]), *built.warnings)
    return profiled.model_copy(update={"evidence": evidence})


def make_untimed_bench(
    bench_target: BenchTarget,
    workload: str,
    verdict: FailureVerdict,
    detail: str | None,
    cure: str | None,
    seconds: float,
) -> Bench:
    """Return the Bench of a variant that was not timed, with the reason."""
    return Bench(
        **bench_target.subject.identity_fields,
        workload=workload,
        verdict=verdict,
        detail=detail,
        cure=cure,
        seconds=seconds,
    )
