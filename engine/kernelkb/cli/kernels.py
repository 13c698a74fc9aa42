"""The commands on a kernel: build, bench, profile and triage, with the macros of a build."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_change_argument, add_kernel_arguments, parse_seconds
from kernelkb.cli.output import (
    interruptible_measurement,
    print_json,
    print_lines,
    print_record,
    print_result,
)
from kernelkb.errors import BadValueError
from kernelkb.measure.subject import DEFAULT_OPTIONS, BenchOptions
from kernelkb.model.records.measurement import Bench, Build
from kernelkb.render.text.measurements import (
    describe_bench,
    describe_build,
    describe_profile,
    format_bench_lines,
    format_problem_lines,
)
from kernelkb.render.text.reports import format_static_report


def add_macro_arguments(parser: ArgumentParser) -> None:
    """Add what names the macros of a build."""
    parser.add_argument(
        "--define",
        action="append",
        default=[],
        metavar="NAME=V[,V...]",
        help="a macro; with several values or macros, every combination is built",
    )
    parser.add_argument(
        "--tuned",
        nargs="?",
        const="",
        metavar="WORKLOAD",
        help="the macros of kb tune's winner for this workload; default: the target's default",
    )


def choose_macros(options: Namespace) -> tuple[str | None, dict[str, list[str]]]:
    """Return the variant to build, and the values of its macros.

    Raises:
        BadValueError: A macro has no value, or no search is on record.
    """
    given = dict(map(_parse_macro, options.define or ()))
    if options.tuned is None:
        return options.variant, given
    if given:
        raise BadValueError("--tuned names all macros; leave --define out")
    from kernelkb.tune.winner import find_tuned_variant

    found = find_tuned_variant(
        options.kernel, options.variant, options.target, options.tuned or None, options.arch
    )
    return found.variant, found.macros


def _parse_macro(text: str) -> tuple[str, list[str]]:
    name, _, values = text.partition("=")
    if not name.isidentifier() or not values:
        raise BadValueError(f"--define {text} is not NAME=VALUE; write --define BLOCK=128,256")
    return name, values.split(",")


def add_build_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb build``."""
    add_kernel_arguments(parser, workload=False)
    parser.add_argument(
        "--arch",
        metavar="CC",
        help="compile for this architecture, without a GPU: 8.9 or sm_89; kb show architectures",
    )
    add_macro_arguments(parser)
    add_change_argument(parser)


def run_build(options: Namespace) -> int:
    """Compile a variant; print the compiler's findings. Exits 1 when it fails.

    kb build row_softmax --variant naive --target cpu
    kb build row_softmax --variant warp --arch 9.0
    kb build gemm --variant blocked --tuned large
    """
    from kernelkb.actions.kernels.measure_variant import (
        analyse_build,
        build_configurations,
        build_variant,
    )
    from kernelkb.actions.sessions.sessions import step_after_build

    variant, macros = choose_macros(options)
    which = (variant, options.target, options.arch)
    shown = _describe_call("build", options)
    with interruptible_measurement(shown, interrupted="interrupted: nothing was built"):
        if macros:
            builds = build_configurations(options.kernel, macros, *which)
        else:
            builds = [build_variant(options.kernel, *which, options.change)]
    lines = [line for built in builds for line in _format_build(built)]
    if not macros and not options.json and (report := analyse_build(builds[0])) is not None:
        lines += format_static_report(report)
    if not macros and options.arch is None:
        lines.append(f"next: {step_after_build(builds[0]).as_shell_words()}")
    print_record(builds if macros else builds[0], lines, as_json=options.json)
    return int(any(built.error is not None for built in builds))


def _describe_call(verb: str, options: Namespace) -> str:
    """Return a command in a few words; the same words forecast its next run."""
    given = vars(options)
    subject = given["kernel"] or f"{given.get('task')} {given.get('candidate')}"
    named = (given.get(name) for name in ("variant", "target", "workload"))
    return " ".join(str(word) for word in (verb, subject, *named) if word and word != "auto")


def _format_build(build: Build) -> list[str]:
    loops = [
        f"  line {loop.line}: {'' if loop.vectorized else 'scalar: '}{loop.reason}"
        for loop in build.loops
    ]
    which = f"{' '.join(build.defines)}: " if build.defines else ""
    record_gap = [f"  not recorded: {build.unrecorded}"] if build.unrecorded else []
    where = f"  {build.library or build.cure or 'as it is'}"
    return [which + describe_build(build), *loops, where, *record_gap]


def add_bench_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb bench``."""
    add_kernel_arguments(parser, optional=True)
    parser.add_argument(
        "--timeout", type=parse_seconds, metavar="S", help="default 120, for a task 600"
    )
    parser.add_argument(
        "--budget",
        type=parse_seconds,
        metavar="S",
        help="seconds of timing; default 3, or KB_BUDGET",
    )
    parser.add_argument(
        "--against", metavar="VARIANT", help="another variant to time against, besides torch"
    )
    parser.add_argument(
        "--sanitize", action="store_true", help="run compute-sanitizer too (slower)"
    )
    parser.add_argument(
        "--again", action="store_true", help="measure it even where the record answers"
    )
    add_change_argument(parser)
    _add_task_arguments(parser)


def _add_task_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--task",
        metavar="PATH",
        help="a task of KernelBench, KernelBench-Verified, robust-kbench, FlashInfer-Bench, "
        "SOL-ExecBench or ComputeEval (FILE#ID for one of several), as it is",
    )
    parser.add_argument(
        "--candidate",
        metavar="FILE",
        help="the task's candidate, in the form that the task's project has for it",
    )
    parser.add_argument(
        "--workloads", metavar="FILE", help="workloads of a FlashInfer-Bench definition, JSON Lines"
    )
    parser.add_argument(
        "--precision",
        choices=("fp32", "tf32", "open"),
        help="of a KernelBench task's fp32 products; open allows TF32, to candidate and baseline; "
        "default: as the task's file sets it",
    )
    parser.add_argument(
        "--skip-inputs",
        action="append",
        default=[],
        metavar="NAME",
        help="hidden inputs that the task does not define: tripled, nan, sizes, ...",
    )


def run_bench(options: Namespace) -> int:
    """Check a variant's outputs and time it against the fastest alternative.

    Exits 1 when the outputs are incorrect or the timing is invalid. A problem of ComputeEval is
    built and tested by its own commands: exits 1 when it fails, 2 when it only builds here.

    kb bench row_softmax --variant vectorized --target cpu --workload medium
    kb bench --task 23_Softmax.py --candidate mine.py
    """
    from kernelkb.actions.sessions.sessions import step_after_bench
    from kernelkb.adapters.compute_eval import is_compute_eval

    if bool(options.kernel) == bool(options.task) or bool(options.task) != bool(options.candidate):
        raise BadValueError("name a kernel, or give --task FILE and --candidate FILE")
    _refuse_ignored(options)
    if options.task and is_compute_eval(options.task):
        return _check_problem(options)
    with interruptible_measurement(_describe_call("bench", options)):
        bench = _bench_task(options) if options.task else _bench_kernel(options)
    lines = format_bench_lines(bench)
    if options.kernel:
        follow = step_after_bench(bench, options.against, options.workload)
        lines.append(f"next: {follow.as_shell_words()}")
    print_record(bench, lines, as_json=options.json)
    return int(bench.has_failed)


_PROBLEM_EXIT_STATUS = {"passed": 0, "built": 2}


def _check_problem(options: Namespace) -> int:
    from kernelkb.actions.kernels.foreign_tasks import check_problem

    for name in ("workload", "workloads", "timeout", "budget"):
        if getattr(options, name):
            raise BadValueError(f"--{name} is not for ComputeEval; leave it out")
    with interruptible_measurement():
        result = check_problem(options.task, options.candidate, options.target)
    print_record(result, format_problem_lines(result), as_json=options.json)
    return _PROBLEM_EXIT_STATUS.get(result.status, 1)


def _refuse_ignored(options: Namespace) -> None:
    """Reject options that would have no effect.

    Raises:
        BadValueError: One was given.
    """
    if options.kernel and options.workloads:
        raise BadValueError("--workloads is for --task; leave it out")
    if options.kernel and options.precision:
        raise BadValueError("--precision is for --task; set precision in the kernel.yaml")
    if options.kernel and options.skip_inputs:
        raise BadValueError("--skip-inputs is for --task; write hidden_inputs into kernel.yaml")
    for name in ("variant", "against", "sanitize", "change", "again"):
        if options.task and getattr(options, name):
            raise BadValueError(f"--{name} is for a kernel, not for --task; leave it out")


def _bench_kernel(options: Namespace) -> Bench:
    from kernelkb.actions.kernels.measure_variant import bench_variant

    how = BenchOptions(
        timeout_s=options.timeout or DEFAULT_OPTIONS.timeout_s,
        budget_s=options.budget,
        with_sanitizer=options.sanitize,
        against=options.against,
        change=options.change,
        again=options.again,
    )
    return bench_variant(options.kernel, options.variant, options.target, options.workload, how)


def _bench_task(options: Namespace) -> Bench:
    from kernelkb.actions.kernels.foreign_tasks import TASK_OPTIONS, bench_task

    return bench_task(
        options.task,
        options.candidate,
        options.target,
        options.workload,
        workloads=options.workloads,
        options=TASK_OPTIONS._replace(
            timeout_s=options.timeout or TASK_OPTIONS.timeout_s, budget_s=options.budget
        ),
        precision=options.precision,
        skip_inputs=options.skip_inputs,
    )


def add_profile_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb profile``."""
    add_kernel_arguments(parser)
    add_change_argument(parser)


def run_profile(options: Namespace) -> int:
    """Collect the metrics that explain a variant: compiler report on a CPU, ncu on a GPU.

    Exits 1 when the variant could not be profiled.

    kb profile row_softmax --target cpu
    """
    from kernelkb.actions.kernels.measure_variant import profile_variant
    from kernelkb.actions.sessions.sessions import step_after_profile

    with interruptible_measurement(_describe_call("profile", options)):
        result = profile_variant(
            options.kernel,
            options.variant,
            options.target,
            options.workload,
            BenchOptions(change=options.change),
        )
    follow = step_after_profile(result, options.workload).as_shell_words()
    if options.json:
        print_json(result)
    elif isinstance(result, Bench):
        print_result(describe_bench(result), result.cure)
    else:
        metrics = [f"  {name} = {value:.6g}" for name, value in sorted(result.metrics.items())]
        evidence = [f"  {line}" for line in result.evidence]
        print_lines([describe_profile(result), *metrics, *evidence])
        print_result(None, result.cure)
    if not options.json:
        print_lines([f"next: {follow}"])
    return int(isinstance(result, Bench))


_EXIT_STATUS = {"done": 0, "stopped": 1, "could-not-run": 2}


def add_triage_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb triage``."""
    add_kernel_arguments(parser)
    add_change_argument(parser)


def run_triage(options: Namespace) -> int:
    """Take a kernel through the whole loop; follow the recommendation if a variant applies it.

    kb triage row_softmax
    kb triage row_softmax --target cuda --variant warp
    """
    from kernelkb.actions.history.record_result import ignore_step
    from kernelkb.actions.kernels.triage import triage
    from kernelkb.cli.screen import print_triage, watch_steps

    with watch_steps(quiet=options.json) as report:
        result = triage(
            options.kernel,
            options.variant,
            options.target,
            options.workload,
            ignore_step if options.json else report,
            change=options.change,
        )
    if options.json:
        print_json(result)
    else:
        print_triage(result)
    return _EXIT_STATUS[result.outcome]
