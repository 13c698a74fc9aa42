"""``kb recommend``, the next fix or measurement; ``kb report``, a report as one page."""

from __future__ import annotations

import json
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernelkb.actions.advice.recommend import recommend_from_metrics
from kernelkb.cli.options import (
    add_gpu_fact_arguments,
    add_metric_arguments,
    parse_written_file,
    read_gpu_facts,
    read_metric_flags,
    read_text_argument,
)
from kernelkb.errors import BadValueError
from kernelkb.render.text.answers import format_answer_lines
from kernelkb.render.text.steps import print_recommendation
from kernelkb.safety.paths import read_kernel_name

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import KernelAnswer, Recommendation

_MORE = "--all tells the evidence, other causes, and where the time goes"
_PIPED_WIDTH = 120
"""Of the table of kernels in characters: names of library kernels alone take up to 200."""


def add_recommend_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb recommend``."""
    add_metric_arguments(parser)
    add_gpu_fact_arguments(parser, architecture=True)
    parser.add_argument(
        "--profile",
        metavar="FILE",
        help="a .ncu-rep, what ncu, nsys stats or torch.profiler printed (- is stdin), or a trace "
        "of the program: of torch.profiler, JAX or nsys",
    )
    parser.add_argument(
        "--run",
        dest="record",
        metavar="ID",
        help="a recorded bench or profile, or the beginning of its id; kb lab history names them; "
        "target, GPU and kernel are the record's",
    )
    parser.add_argument(
        "--code",
        metavar="FILE",
        help="a cubin, library or program: what its machine code shows, where there is no profile",
    )
    parser.add_argument(
        "--kernel",
        type=read_kernel_name,
        metavar="NAME",
        default="",
        help="name to use in the answer; with --profile a regular expression that picks kernels",
    )
    _add_what_if_argument(parser)
    parser.add_argument(
        "--all",
        dest="everything",
        action="store_true",
        help="the evidence, the other causes, where the time goes, and kernels like this one, too",
    )


def _add_what_if_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--what-if",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="with --profile, what a launch would cost with threads, grid, registers, static_smem, "
        "dynamic_smem, cluster, stages=2:4, unroll or vector=4:16; +16KiB adds; repeat",
    )


def run_recommend(options: Namespace) -> int:
    """Print what to fix next, or what to measure first, from the numbers at hand.

    Exits 1 when the gate says stop.

    kb recommend --speedup 0.3 --occupancy 0.4
    kb recommend --bandwidth 88% --metric over_fetch=3.9 --gpu "NVIDIA H100 80GB HBM3"
    kb recommend --profile report.ncu-rep --kernel gemm --speedup 0.7
    ncu ./program | kb recommend --profile -
    kb recommend --run 3f9c2a
    kb recommend --speedup 0.3 --kernel-us 90 --arch 10.3 --sm-count 148 --dram-gbps 8000
    kb recommend --speedup 0.6 --code build/gemm.cubin
    kb recommend --profile report.ncu-rep --kernel gemm --what-if registers=64 --what-if threads=512
    """
    typed, headlines = read_metric_flags(options)
    if options.what_if:
        return _predict_change(options, typed)
    from_code = {} if options.code is None else _measure_code(options)
    metrics: Mapping[str, str | float] = {**from_code, **typed}
    if (options.arch or read_gpu_facts(options)) and (options.record or options.profile):
        raise BadValueError("a report or a record names its GPU; leave --arch and its numbers out")
    if options.record is not None:
        result = _recommend_run(options, metrics, headlines)
    elif options.profile is not None:
        result = _recommend_report(options, metrics, headlines)
    else:
        result = recommend_from_metrics(
            metrics,
            headlines=headlines,
            target=options.target,
            gpu=options.gpu,
            architecture=options.arch,
            given=read_gpu_facts(options),
            kernel=options.kernel,
        )
    if options.json:
        sys.stdout.write(json.dumps(print_recommendation(result), indent=2, allow_nan=False) + "\n")
    else:
        print_answers(result["kernels"], options.kernel, everything=options.everything)
    return int(any(answer["gate"]["verdict"] == "stop" for answer in result["kernels"]))


def _predict_change(options: Namespace, metrics: Mapping[str, str | float]) -> int:
    """Print what a change of a profiled launch costs; 1 where the launch would fail."""
    from kernelkb.actions.advice.recommend_report import predict_report_change
    from kernelkb.render.text.calculators import format_what_if_lines

    if options.profile is None:
        raise BadValueError("--what-if needs the launch as it is: add --profile REPORT")
    pairs = [text.partition("=") for text in options.what_if]
    if bare := next((name for name, equals, _ in pairs if not equals), None):
        raise BadValueError(f"--what-if {bare} has no value; write {bare}=64")
    answer = predict_report_change(
        read_text_argument("-") if options.profile == "-" else options.profile,
        {name: value for name, _, value in pairs},
        kernel_pattern=options.kernel,
        metrics=metrics,
        gpu=options.gpu,
    )
    if options.json:
        sys.stdout.write(json.dumps(answer, indent=2, allow_nan=False) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in format_what_if_lines(answer))
    return int(bool(answer["obstacles"]))


def print_answers(
    answers: Sequence[KernelAnswer], chosen: str = "", *, everything: bool = False
) -> None:
    """Print one kernel; of a report with several first a table, then those asked for.

    Args:
        answers: The one that took the most time first.
        chosen: What the caller asked for by name; empty: nothing, so the first is shown.
        everything: See ``format_answer_lines``.
    """
    is_screen = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_screen else _PIPED_WIDTH
    lines: list[str] = []
    if len(answers) > 1:
        from kernelkb.render.text.reports import format_report_table

        lines += [*format_report_table(answers, width), ""]
        if not chosen:
            which = "longest" if (answers[0]["duration_us"] or 0) > 0 else "first"
            lines += [f"The {which}; --kernel NAME shows another of {len(answers)}.", ""]
    shown = answers if chosen else answers[:1]
    for position, answer in enumerate(shown):
        lines += [""] if position else []
        lines += format_answer_lines(answer, everything=everything)
    lines += [] if everything else [_MORE]
    if is_screen:
        from kernelkb.cli.terminal import print_styled_lines  # rich takes 40 ms to import

        print_styled_lines(lines)
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines)


def _recommend_report(
    options: Namespace, metrics: Mapping[str, str | float], headlines: dict[str, str]
) -> Recommendation:
    from kernelkb.actions.advice.recommend_report import (  # reads files, so it imports more
        MAX_KERNELS,
        recommend_from_report,
    )

    if options.target == "cpu":
        raise BadValueError("--profile reads reports of a GPU; leave --target cpu out")
    return recommend_from_report(
        read_text_argument("-") if options.profile == "-" else options.profile,
        kernel_pattern=options.kernel,
        metrics=metrics,
        headlines=headlines,
        gpu=options.gpu,
        max_kernels=None if options.json else MAX_KERNELS,
    )


def _measure_code(options: Namespace) -> dict[str, float]:
    from kernelkb.profiles.machine_code import measure_code_files  # it reads object files

    if options.profile is not None:
        raise BadValueError("a report holds its code; leave --code out")
    if options.target == "cpu":
        raise BadValueError("--code reads the code of a GPU; leave --target cpu out")
    return measure_code_files([Path(options.code)])


def _recommend_run(
    options: Namespace, metrics: Mapping[str, str | float], headlines: dict[str, str]
) -> Recommendation:
    from kernelkb.actions.advice.recommend_run import (
        recommend_from_run,
    )  # opens a database, so it imports more

    if options.profile is not None:
        raise BadValueError("--run and --profile are two sources of metrics; leave one out")
    return recommend_from_run(
        options.record, metrics=metrics, headlines=headlines, gpu=options.gpu, kernel=options.kernel
    )


def add_report_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb report``."""
    parser.add_argument("report", metavar="FILE", help="a report of Nsight Compute: .ncu-rep")
    parser.add_argument(
        "-o",
        "--output",
        type=parse_written_file,
        metavar="PAGE",
        help="overwritten if it exists; default: the report's name with .html, in this folder",
    )
    parser.add_argument(
        "--kernel", metavar="REGEX", help="only kernels whose name matches this regular expression"
    )
    parser.add_argument("--gpu", metavar="NAME", help="the GPU, where the report names none")


def run_report(options: Namespace) -> int:
    """Write a report as one HTML page: causes, time, source and machine code of each kernel.

    The page needs no network and no script. It shows the 20 kernels that take the most time.

    kb report profile.ncu-rep -o profile.html
    kb report profile.ncu-rep --kernel gemm
    """
    from kernelkb.actions.advice.report_page import write_report_page
    from kernelkb.cli.output import print_record, show_activity

    page = options.output or Path(f"{Path(options.report).name.removesuffix('.ncu-rep')}.html")
    with show_activity(f"report {Path(options.report).name}"):
        done = write_report_page(
            options.report, page, kernel_pattern=options.kernel, gpu=options.gpu
        )
    count = f"{done.kernels} kernel{'s' if done.kernels != 1 else ''}"
    record = {"page": str(page), "kernels": done.kernels, "bytes": done.bytes}
    return print_record(record, [f"{page}: {count}, {done.bytes:,} bytes"], as_json=options.json)
