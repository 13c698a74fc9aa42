"""The commands on a kernel: build, bench, profile and triage, with the macros of a build."""

from __future__ import annotations

import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path

from kernelkb.cli.options import (
    add_change_argument,
    add_kernel_arguments,
    parse_positive_int,
    parse_seconds,
)
from kernelkb.cli.output import (
    interruptible_measurement,
    print_json,
    print_lines,
    print_record,
    print_result,
)
from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.measure.subject import DEFAULT_OPTIONS, BenchOptions
from kernelkb.model.records.measurement import Bench, Build, is_failure
from kernelkb.render.text.measurements import (
    describe_bench,
    describe_build,
    describe_profile,
    format_bench_lines,
    format_change_table,
    format_data_lines,
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
        "--changes",
        metavar="V1,V2,...",
        help="time each of these variants against --variant alone; a+b: what both apply together",
    )
    parser.add_argument(
        "--sanitize",
        action="store_true",
        help="run compute-sanitizer, too; cuda-gdb, outside of the sandbox, where it hangs",
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
    kb bench gemm --variant naive --target cuda --changes tiled,vectorized,tiled+vectorized
    kb bench --task 23_Softmax.py --candidate mine.py
    """
    from kernelkb.actions.sessions.sessions import step_after_bench
    from kernelkb.adapters.compute_eval import is_compute_eval

    if bool(options.kernel) == bool(options.task) or bool(options.task) != bool(options.candidate):
        raise BadValueError("name a kernel, or give --task FILE and --candidate FILE")
    _refuse_ignored(options)
    if options.task and is_compute_eval(options.task):
        return _check_problem(options)
    if options.changes:
        return _bench_changes(options)
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
    for name in ("variant", "against", "changes", "sanitize", "change", "again"):
        if options.task and getattr(options, name):
            raise BadValueError(f"--{name} is for a kernel, not for --task; leave it out")
    for name in ("against", "sanitize", "change"):
        if options.changes and getattr(options, name):
            raise BadValueError(f"--{name} is for one variant, not for --changes; leave it out")


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


def _bench_changes(options: Namespace) -> int:
    """Print what each change gives alone; 1 where one is wrong or was not timed."""
    from kernelkb.actions.kernels.bench_changes import bench_changes

    timeout_s = options.timeout or DEFAULT_OPTIONS.timeout_s
    with interruptible_measurement(_describe_call("bench", options)):
        table = bench_changes(
            options.kernel,
            options.changes,
            options.variant,
            options.target,
            options.workload,
            BenchOptions(timeout_s=timeout_s, budget_s=options.budget),
        )
    lines = [*format_change_table(table), f"next: kb log {table.kernel}"]
    print_record(table, lines, as_json=options.json)
    return int(any(is_failure(change.verdict) for change in table.changes))


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


_PROGRAM_CALL = "kb profile -- python train.py"


def add_profile_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb profile``."""
    add_kernel_arguments(parser, optional=True)
    add_change_argument(parser)
    parser.add_argument(
        "--clocks",
        action="store_true",
        help="instead of counters: a build that reads clocks, for the time between barriers",
    )
    parser.set_defaults(program=None)
    parser.usage = "kb profile [option ...] (kernel | -- COMMAND ...)"
    group = parser.add_argument_group("a program: -- COMMAND")
    group.add_argument(
        "--kernel", dest="only", metavar="REGEX", help="only these kernels are looked into"
    )
    group.add_argument(
        "--range", metavar="NVTX", help="and only inside this NVTX range, by push and pop"
    )
    group.add_argument(
        "--skip",
        type=parse_positive_int,
        metavar="N",
        help="launches of each kernel that are its warm-up; default 1",
    )
    group.add_argument(
        "--top",
        type=parse_positive_int,
        metavar="N",
        help="how many kernels ncu looks into, those with the most time; default 3",
    )
    group.add_argument(
        "--minutes",
        type=parse_positive_int,
        metavar="M",
        help="each run of the program is ended after so long; default 10",
    )


def run_profile(options: Namespace) -> int:
    """Tell what limits a variant of a kernel, or any program that is given after --.

    A variant: the compiler's report on a CPU, ncu's counters on a GPU.
    A program needs no kernel.yaml and no project. It runs once for its timeline (nsys, or
    torch.profiler inside Python, or ncu's times of kernels), then under ncu for launches of its
    longest kernels. What it prints in the first run is passed on (with --json to standard error),
    its input is empty, and the answer follows.
    Exits 1 when the variant could not be profiled, the program failed or used no GPU, or the gate
    says stop.

    kb profile row_softmax --target cpu
    kb profile -- python train.py --steps 5
    kb profile --top 1 --kernel attention -- torchrun --nproc-per-node 2 train.py
    """
    if options.program is not None:
        return _profile_program(options)
    _refuse_program_options(options)
    try:
        return _profile_variant(options)
    except UnknownNameError as error:
        if shutil.which(options.kernel) or Path(options.kernel).is_file():
            raise BadValueError(f"{error}; a program stands behind --: {_PROGRAM_CALL}") from error
        raise


def _refuse_program_options(options: Namespace) -> None:
    """Reject a call without a kernel, and options that only a program has.

    Raises:
        BadValueError: Something is missing, or would have no effect.
    """
    if not options.kernel:
        raise BadValueError(f"name a kernel, or give a program: {_PROGRAM_CALL}")
    for name in ("only", "range", "skip", "top", "minutes"):
        if getattr(options, name):
            flag = "kernel" if name == "only" else name
            raise BadValueError(f"--{flag} is for a program: kb profile --{flag} ... -- COMMAND")


def _profile_program(options: Namespace) -> int:
    from kernelkb.actions.kernels.profile_program import (
        ProgramOptions,
        has_failed,
        profile_program,
    )
    from kernelkb.render.text.reports import format_program_lines, print_program

    for name in ("kernel", "variant", "workload", "change"):
        if getattr(options, name):
            what = f"{name} {getattr(options, name)!r}"
            raise BadValueError(f"{what} is for a kernel of a project, and -- for any program")
    default = ProgramOptions()
    how = ProgramOptions(
        options.only,
        options.range,
        skip=options.skip or default.skip,
        top=options.top or default.top,
        minutes=options.minutes or default.minutes,
        prints_to="stderr" if options.json else "terminal",
    )
    ended = "interrupted: the program was ended, and nothing is left of it"
    with interruptible_measurement(interrupted=ended):
        answer = profile_program(options.program, how)
    print_record(print_program(answer), format_program_lines(answer), as_json=options.json)
    return int(has_failed(answer))


def _profile_variant(options: Namespace) -> int:
    from kernelkb.actions.kernels.measure_variant import profile_variant
    from kernelkb.actions.kernels.profile_program import clock_variant
    from kernelkb.actions.sessions.sessions import step_after_profile

    where = (options.kernel, options.variant, options.target, options.workload)
    if options.clocks:
        with interruptible_measurement(_describe_call("profile", options)):
            clocked = clock_variant(*where)
        if options.json:
            print_json(clocked)
        else:
            name = f"{clocked.kernel}/{clocked.variant} on {clocked.workload}"
            print_lines([name, *(f"  {line}" for line in clocked.evidence)])
        return 0
    with interruptible_measurement(_describe_call("profile", options)):
        result = profile_variant(*where, BenchOptions(change=options.change))
    follow = step_after_profile(result, options.workload).as_shell_words()
    if options.json:
        print_json(result)
    elif isinstance(result, Bench):
        print_result(describe_bench(result), result.cure)
    else:
        metrics = [f"  {name} = {value:.6g}" for name, value in sorted(result.metrics.items())]
        evidence = [f"  {line}" for line in result.evidence]
        data = format_data_lines(result.data)
        print_lines([describe_profile(result), *metrics, *evidence, *data])
        print_result(None, result.cure)
    if not options.json:
        print_lines([f"next: {follow}"])
    return int(isinstance(result, Bench))


def add_explain_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb explain``."""
    parser.set_defaults(program=None)
    parser.add_argument("--pid", type=int, metavar="N", help="a process that runs")
    parser.add_argument(
        "--after",
        type=parse_seconds,
        metavar="S",
        help="look at the program when it ran so long, and again each time; default 30",
    )
    parser.add_argument(
        "--minutes",
        type=parse_positive_int,
        metavar="M",
        help="the program is ended after so long; default 10",
    )
    parser.add_argument("--once", action="store_true", help="run the program no second time")


def run_explain(options: Namespace) -> int:
    """Tell why a program hangs or crashes: where its threads are, what they wait for, the cause.

    The program after -- runs as it is; when it stands still it is looked at by cuda-gdb and ended.
    One that ended runs again under compute-sanitizer: once where it failed, up to three times where
    it ended well; one of Python that crashed on the GPU once more to tell the line that launched.
    With --pid a process that runs is stopped twice for some seconds, looked at, and goes on.
    Exits 0 when it ended well and nothing was found, otherwise 1.

    kb explain -- ./my_program
    kb explain --after 60 -- torchrun --nproc-per-node 2 train.py
    kb explain --pid 4711
    """
    from kernelkb.actions.kernels.explain_program import (
        ExplainOptions,
        explain_process,
        explain_program,
    )
    from kernelkb.render.text.reports import format_explanation_lines

    if (options.program is None) == (options.pid is None):
        raise BadValueError("give a program, kb explain -- COMMAND, or a process, --pid N")
    default = ExplainOptions()
    how = ExplainOptions(
        options.after or default.after_s,
        options.minutes or default.minutes,
        to_stderr=options.json,
        once=options.once,
    )
    with interruptible_measurement(interrupted="interrupted: the program was ended"):
        answer = (
            explain_process(options.pid)
            if options.pid is not None
            else explain_program(options.program, how)
        )
    print_record(answer, format_explanation_lines(answer), as_json=options.json)
    return int(answer["outcome"] != "ended" or bool(answer["lines"]))


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
