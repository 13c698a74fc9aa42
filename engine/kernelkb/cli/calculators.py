"""The commands that answer in milliseconds, from a few numbers or a log."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import (
    add_gpu_arguments,
    add_gpu_fact_arguments,
    read_gpu_facts,
    read_text_argument,
)


def add_occupancy_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb occupancy``."""
    add_gpu_arguments(parser)
    parser.add_argument("--sm-count", metavar="N", help="SMs of a GPU that is not listed")
    parser.add_argument("--threads", metavar="N", required=True, help="threads per block")
    parser.add_argument(
        "--registers", metavar="N", required=True, help="per thread, as kb build or ptxas -v prints"
    )
    size = "bytes, 48KiB, or rows x columns x bytes x stages: 128x64x2x3"
    parser.add_argument("--static-smem", metavar="SIZE", default=0, help=f"declared: {size}")
    parser.add_argument("--dynamic-smem", metavar="SIZE", default=0, help="added by the launch")
    parser.add_argument(
        "--carveout", metavar="SIZE", help="preferred shared memory per SM: 64KiB or 50%%"
    )
    parser.add_argument("--barriers", metavar="N", default=0, help="named barriers of a block")
    parser.add_argument("--grid", metavar="N", help="blocks of the launch, for its waves")
    parser.add_argument(
        "--blocks", metavar="N", help="find what would allow this many blocks per SM"
    )


def run_occupancy(options: Namespace) -> int:
    """Print how many blocks fit on an SM, what limits them, and the smallest useful change.

    Exits 1 when the launch would fail.

    kb occupancy --gpu h100-sxm --threads 256 --registers 96
    kb occupancy --arch sm_89 --threads 128 --registers 168 --dynamic-smem 128x64x2x3
    kb occupancy --arch 10.3 --sm-count 148 --threads 256 --registers 64 --grid 2000
    """
    from kernelkb.actions.advice.calculators import OccupancyQuery, analyze_occupancy
    from kernelkb.render.text.calculators import format_occupancy_lines

    answer = analyze_occupancy(
        OccupancyQuery(
            threads=options.threads,
            registers=options.registers,
            gpu=options.gpu,
            architecture=options.arch,
            static_smem=options.static_smem,
            dynamic_smem=options.dynamic_smem,
            carveout=options.carveout,
            barriers=options.barriers,
            grid=options.grid,
            blocks=options.blocks,
            given={"sm_count": options.sm_count} if options.sm_count else {},
        )
    )
    if options.json:
        sys.stdout.write(json.dumps(answer, indent=2, allow_nan=False) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in format_occupancy_lines(answer))
    return int(not answer["possible"])


def add_roofline_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb roofline``."""
    add_gpu_arguments(parser)
    parser.add_argument(
        "--bytes",
        metavar="SIZE",
        help="bytes that any correct kernel must move: 1GiB or 1073741824",
    )
    parser.add_argument(
        "--flop", metavar="N", help="operations that any correct kernel must do: 2.5e9"
    )
    parser.add_argument(
        "--dtype",
        metavar="TYPE",
        help="fp64 fp32 tf32 fp16 bf16 fp8 fp4; default: the fastest of all but fp4",
    )
    parser.add_argument("--us", metavar="US", help="current kernel time in microseconds")
    parser.add_argument(
        "--cold", action="store_true", help="assume cold caches, however small the data"
    )
    parser.add_argument("--copy-gbps", metavar="GBPS", help="copy bandwidth as measured here")
    parser.add_argument("--launch-us", metavar="US", help="time of an empty kernel here")
    add_gpu_fact_arguments(parser)


def run_roofline(options: Namespace) -> int:
    """Print the shortest possible time of some work on a GPU, the binding roof, and the headroom.

    kb roofline --gpu h100-sxm --bytes 1GiB --us 400
    kb roofline --gpu l4 --bytes 96MiB --flop 1.1e12 --dtype fp16
    kb roofline --arch 10.3 --sm-count 148 --clock-mhz 1920 --dram-gbps 8000 --bytes 1GiB
    """
    from kernelkb.actions.advice.calculators import RooflineQuery, analyze_roofline
    from kernelkb.render.text.calculators import format_roofline_lines

    answer = analyze_roofline(
        RooflineQuery(
            gpu=options.gpu,
            bytes=options.bytes,
            flop=options.flop,
            dtype=options.dtype,
            us=options.us,
            cold=options.cold,
            copy_gbps=options.copy_gbps,
            launch_us=options.launch_us,
            architecture=options.arch,
            given=read_gpu_facts(options),
        )
    )
    if options.json:
        sys.stdout.write(json.dumps(answer, indent=2, allow_nan=False) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in format_roofline_lines(answer))
    return 0


def add_diagnose_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb diagnose``."""
    parser.add_argument("log", metavar="LOG", nargs="?", default="-", help="a file; - is stdin")
    parser.add_argument("--gpu", metavar="NAME", help="the GPU that the build was for")


def run_diagnose(options: Namespace) -> int:
    """Name the known failures in the log of a build, a load or a run, each with its cure.

    The first cause comes first, warnings come last. Without a known failure it prints the first
    error line, entries that share its words (perhaps) and how much was read; of a profile that ncu
    printed, what kb recommend says of it.
    Exits 1 when the log shows a known failure or warning.

    kb diagnose build.log
    python setup.py build_ext 2>&1 | kb diagnose -
    """
    from kernelkb.actions.advice.calculators import diagnose_log
    from kernelkb.actions.knowledge.search import find_possible_entries
    from kernelkb.render.text.calculators import format_diagnosis_lines

    log = read_text_argument(options.log)
    result = diagnose_log(log, options.gpu)
    perhaps = find_possible_entries(result["symptoms"], result["first_error"])
    if not result["symptoms"] and not options.json:
        from kernelkb.profiles.report import holds_report  # of a log, a failure is looked for first

        if holds_report(log):
            return _answer_report(log, options.gpu)
    if options.json:
        sys.stdout.write(json.dumps({**result, "perhaps": perhaps}, indent=2) + "\n")
    else:
        source = "stdin" if options.log == "-" else options.log
        lines = format_diagnosis_lines(
            result["symptoms"], result["first_error"], result["read"], source, perhaps
        )
        sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(bool(result["symptoms"]))


def _answer_report(text: str, gpu: str | None) -> int:
    from kernelkb.actions.advice.recommend_report import recommend_from_report
    from kernelkb.cli.recommend import print_answers

    print_answers(recommend_from_report(text, gpu=gpu)["kernels"])
    return 0
