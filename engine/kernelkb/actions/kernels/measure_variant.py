"""Builds, checks, times and profiles a variant, and measures what its GPU reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.history.measured_subject import keep_state
from kernelkb.actions.history.record_result import (
    CallRecord,
    StepRunner,
    record_result,
    record_steps,
    summarize_bench,
    summarize_build,
    summarize_check,
    summarize_profile,
)
from kernelkb.actions.history.reuse_results import find_known_bench
from kernelkb.actions.kernels.explain_program import (
    explain_failed_check,
    read_kept_sizes,
    shrink_failure,
)
from kernelkb.actions.project.bench_target import (
    BenchTarget,
    get_project_path,
    narrow_target,
    prepare,
    prepare_for_architecture,
    require_machine,
    resolve_workload,
    validate_machine,
)
from kernelkb.actions.project.hardware import find_architecture_spec
from kernelkb.actions.project.profile_reports import (
    keep_data,
    make_next_counters,
    name_report_by_record,
)
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.symptoms import SymptomMatch, find_failure, find_symptoms
from kernelkb.errors import BadValueError, EnvironmentGapError, KbError, NextStep
from kernelkb.loading.kernels import load_kernel, select_variant
from kernelkb.measure.bench import bench
from kernelkb.measure.build.build import build, build_all, locate_failed_log
from kernelkb.measure.build.folders import LOG_NAME, find_machine_code
from kernelkb.measure.check import check
from kernelkb.measure.check.sanitize import sanitize
from kernelkb.measure.check.wrong_cases import tell_failed
from kernelkb.measure.job_specs import is_reference
from kernelkb.measure.machine.environment import TargetChoice, lock_device
from kernelkb.measure.machine.host import find_nvcc
from kernelkb.measure.machine.practical_peaks import measure_practical_peaks
from kernelkb.measure.profile.profile import profile, static_metrics
from kernelkb.measure.subject import DEFAULT_OPTIONS, BenchOptions, MeasurementSubject
from kernelkb.model.answers.source_place import StaticReport
from kernelkb.model.records.measurement import (
    Bench,
    Build,
    Check,
    CheckedCase,
    FailureVerdict,
    PracticalPeaks,
    Profile,
    choose_telling,
    is_wrong,
)
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.machine_code import analyse
from kernelkb.progress import OperationCancelled, report_progress

_NOT_COMPILED = "it is compiled when it is called; kb bench does that, and kb build then reads it"
_MAX_LOG_CHARS = 200_000
"""Characters of a failed build's output that are searched for its cause."""


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
    """Return a failed build with the cure of its log's first error, and where the log is kept.

    What a general symptom says of any code is no cure beside the one that names the file. The log
    comes first: an error alone lacks the lines behind it, such as the types of operands.
    """
    if built.error is None:
        return built
    kept, log = locate_failed_log(built.directory), ""
    with suppress(OSError):
        log = kept.read_text(encoding="utf-8", errors="replace")[:_MAX_LOG_CHARS]
    rules, cure = load_compiled_rules(), built.cure or ""
    found = find_failure(rules, log) or find_failure(rules, f"{built.error}\n{log}")
    if found is not None:
        cure = f"{found['symptom']}: {' '.join(filter(None, (found['cure'], found['note'])))}"
    return built.model_copy(update={"cure": cure + (f"; the whole log: {kept}" if log else "")})


class StepResults(NamedTuple):
    """What the steps gave; None after the step that failed."""

    build: Build
    check: Check | None = None
    bench: Bench | None = None


def check_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    options: BenchOptions = DEFAULT_OPTIONS,
) -> Build | Check:
    """Compare the outputs of a variant with the reference; return the Build if that failed."""
    bench_target = prepare(kernel, variant, target)
    built = build_prepared(bench_target, options)
    if built.error:
        return built
    steps = StepRunner()
    checked = _run_check(steps, bench_target, built, None, options)
    return record_result(CallRecord(bench_target, "check", steps, options, built), checked)


def bench_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
    options: BenchOptions = DEFAULT_OPTIONS,
) -> Bench:
    """Build, check and time a variant; only a correct one is timed.

    Args:
        kernel: Its name.
        variant: The variant's id.
        target: Where it runs.
        workload: The workload to time.
        options: How.
    """
    return bench_prepared(prepare(kernel, variant, target), workload, options)


def bench_prepared(
    bench_target: BenchTarget, workload: str | None, options: BenchOptions = DEFAULT_OPTIONS
) -> Bench:
    """Build, check and time a prepared variant, and log the steps to the open session."""
    return _bench_and_log(bench_target, workload, options)[0]


def profile_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
    options: BenchOptions = DEFAULT_OPTIONS,
) -> Bench | Profile:
    """Build, check, time and profile a variant; return the Bench if it has no valid time."""
    bench_target = prepare(kernel, variant, target)
    timed, built = _bench_and_log(bench_target, workload, options)
    if timed.candidate_us is None or is_wrong(timed.verdict):
        return timed
    record = CallRecord(bench_target, "profile", StepRunner(), options, built)
    return run_profile(record, timed)


def _bench_and_log(
    bench_target: BenchTarget, workload: str | None, options: BenchOptions
) -> tuple[Bench, Build]:
    """Run the steps and log them, also those before an error."""
    kernel, variant = bench_target.subject.kernel, bench_target.subject.variant
    workload = resolve_workload(kernel, variant.target, workload)
    if options.against:
        options = options._replace(rival=_prepare_rival(bench_target, workload, options))
    record = CallRecord(bench_target, "bench", StepRunner(), options)
    try:
        results = build_check_bench(record.steps, bench_target, workload, options)
    except KbError as error:
        record_steps(record)
        if known := _describe_ended(record.steps):
            error.add_note(known)
        raise
    except (KeyboardInterrupt, SystemExit, OperationCancelled):
        if known := _describe_ended(record.steps):
            report_progress(known, "notice")
        raise
    record = record._replace(built=results.build, measured=results.bench)
    timed = get_or_make_bench(bench_target, workload, results)
    return record_result(record, timed), results.build


def _describe_ended(steps: StepRunner) -> str:
    """Return what the steps that ended found, for an answer that lacks the others."""
    found = "; ".join(step.found for step in steps.records)
    return f"until then: {found}" if found else ""


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
        lambda: build_prepared(bench_target, options),
        lambda build, run: summarize_build(bench_target, build, run),
    )
    if steps.has_failed:
        return StepResults(built)
    known = find_known_bench(bench_target, built, workload) if options.may_reuse else None
    if known is not None:
        return StepResults(built, bench=steps.run("bench", name, lambda: known, summarize_bench))
    with ExitStack() as bench_block:

        def start_bench() -> OpenBench:
            return bench_block.enter_context(open_bench(bench_target, built, workload, options))

        ahead = start_bench() if bench.starts_ahead(bench_target.subject.machine) else None
        wait = ahead.started.wait_until_ready if ahead else check.go_on
        checked = _run_check(steps, bench_target, built, workload, options, wait)
        if steps.has_failed:
            return StepResults(built, checked)
        timed = steps.run("bench", name, lambda: (ahead or start_bench()).run(), summarize_bench)
    return StepResults(built, checked, _add_data(timed, checked))


def _add_data(timed: Bench, checked: Check) -> Bench:
    """Return a bench with what the values of its inputs look like, also as metrics."""
    metrics = timed.metrics
    if metrics:
        told = choose_telling(checked.data)
        metrics = {**{name: one.metrics[name] for name, one in told.items()}, **metrics}
    return timed.model_copy(update={"data": checked.data, "metrics": metrics})


def _run_check(
    steps: StepRunner,
    bench_target: BenchTarget,
    built: Build,
    workload: str | None,
    options: BenchOptions,
    before_start: Callable[[], None] = check.go_on,
) -> Check:
    def check_and_sanitize() -> Check:
        checked = check_built(bench_target, built, workload, options.timeout_s, before_start)
        asked = options.with_sanitizer
        if asked and checked.status != "timed-out":
            return add_sanitizer_findings(bench_target, built, checked)
        subject = bench_target.subject
        with lock_device(subject.machine):
            explained = explain_failed_check(subject, built, checked, may_leave_sandbox=asked)
            return shrink_failure(subject, built, explained, bench_target.project)

    return steps.run("check", bench_target.subject.variant.id, check_and_sanitize, summarize_check)


def run_profile(record: CallRecord, timed: Bench) -> Profile:
    """Profile a built variant that was timed, as a step, and record it."""
    bench_target, built = record.bench_target, record.built
    if built is None:
        raise AssertionError("what was timed was built")
    profiled = record.steps.run(
        "profile",
        bench_target.subject.variant.id,
        lambda: profile_built(bench_target, built, timed),
        summarize_profile,
    )
    recorded = record_result(record._replace(measured=profiled), profiled)
    keep_data(bench_target.project, recorded)
    return name_report_by_record(recorded)


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
    verdict = checked.failure or "invalid"
    detail = checked.detail or checked.status
    return make_untimed_bench(
        bench_target, workload, verdict, detail, checked.cure, checked.seconds
    )


def _prepare_rival(
    bench_target: BenchTarget, workload: str, options: BenchOptions
) -> tuple[MeasurementSubject, Build]:
    """Build and check the variant to compare with.

    Raises:
        BadValueError: It does not compile, or its outputs are wrong.
    """
    kernel, name = bench_target.subject.kernel, options.against
    variant = select_variant(kernel, bench_target.subject.variant.target, name)
    other = bench_target.with_variant(variant)
    built = build_prepared(other, options._replace(change=None))
    problem = built.error
    if problem is None and not is_reference(kernel, variant):
        checked = check_built(other, built, workload)
        problem = None if checked.status == "correct" else checked.detail or checked.status
    if problem is not None:
        raise BadValueError(f"nothing can be compared with {name}: {problem}")
    return other.subject, built


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
    kernel, variant = bench_target.subject.kernel, bench_target.subject.variant
    small = list(kernel.workloads)[:_SMALL_WORKLOADS_COUNT]
    names = (*small, resolve_workload(kernel, variant.target, workload))
    with lock_device(bench_target.subject.machine):
        checked = check.check(
            bench_target.subject,
            built,
            workloads=names,
            timeout_s=timeout_s,
            before_start=before_start,
            kept=read_kept_sizes(bench_target.project, bench_target.subject),
        )
    return explain_wrong(bench_target.subject, checked)


def explain_wrong(subject: MeasurementSubject, checked: Check) -> Check:
    """Add the entry that explains how wrong outputs differ, with its cause and its change.

    Where no entry does, and of a correct variant, nothing is added.
    """
    shaped = [case for case in checked.cases if case.error_shape]
    if checked.status != "incorrect" or checked.detail is None:
        return checked
    shaped.sort(key=lambda case: tell_failed(case, checked.when) != checked.detail)
    known = [(case, found) for case in shaped if (found := _find_shape(case, checked.when))]
    of_calls = {found["symptom"] for _, found in known} & _OF_CALLS
    are_all = all(found["symptom"] in of_calls for _, found in known) and len(known) == len(shaped)
    if of_calls and (not are_all or len(of_calls) > 1):
        # Which call is wrong has to be the same on all workloads: else it is chance.
        known = [one for one in known if one[1]["symptom"] not in _OF_CALLS]
    if not known:
        return checked
    general = {row["id"] for row in load_compiled_rules()["symptoms"] if row["fallback"]}
    known.sort(key=lambda one: one[1]["symptom"] in general)  # what a smaller case shows is more
    case, found = known[0]
    cure = f"{found['symptom']}: {found['cause']} {found['cure']}"
    if checked.cure and checked.cure != check.suggest_comparison(subject):
        cure = f"{cure} Else: {checked.cure}"
    detail = tell_failed(case, checked.when)
    fields = {"symptom": found["symptom"], "detail": detail, "cure": cure}
    return checked.model_copy(update=fields)


_SHAPES = {"error-shape", "changed-steps"}
_OF_CALLS = {"scratch-not-cleared", "stale-result", "first-call-wrong"}


def _find_shape(case: CheckedCase, when: str | None) -> SymptomMatch | None:
    """Return the entry on the shape of a wrong answer that fits a case; None without one."""
    said = "; ".join([case.workload, *case.error_shape, *filter(None, [when])])
    matches = find_symptoms(load_compiled_rules(), said)
    return next((row for row in matches if row["kind"] in _SHAPES), None)


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


def measure_gpu_peaks() -> PracticalPeaks:
    """Measure the GPU, keep the result for later answers, and return it.

    Raises:
        EnvironmentGapError: Something required is missing; names the first gap and its cure.
        KbError: The microbenchmark could not be compiled or run.
    """
    machine = require_machine(validate_machine("cuda"))
    with lock_device(machine):
        return measure_practical_peaks(machine, list_raw_names(load_compiled_rules()))
