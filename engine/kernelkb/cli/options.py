"""Arguments that several commands share: kernels, metrics, GPUs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from kernelkb.actions.advice.recommend import TARGETS
from kernelkb.errors import BadValueError, KbError
from kernelkb.safety.paths import read_kernel_name


def add_kernel_arguments(
    parser: ArgumentParser, *, workload: bool = True, optional: bool = False
) -> None:
    """Add what names a variant of a kernel on a target."""
    parser.add_argument(
        "kernel",
        type=read_kernel_name,
        nargs="?" if optional else None,
        help="the kernel's name; kb show kernels lists them",
    )
    parser.add_argument("--variant", metavar="ID", help="default: the plain one")
    add_target_argument(parser, "auto takes CUDA where there is a GPU and nvcc")
    if workload:
        parser.add_argument("--workload", metavar="NAME", help="default: the target's default")


def add_target_argument(parser: ArgumentParser, meaning: str | None = None) -> None:
    """Add ``--target``, with what ``auto`` means."""
    choices = ("auto", "cpu", "cuda")
    parser.add_argument("--target", choices=choices, default="auto", help=meaning)


def add_change_argument(parser: ArgumentParser) -> None:
    """Add what the author says that was changed."""
    parser.add_argument(
        "--change",
        metavar="WORDS",
        help="what you changed since the state before, with the fix's id; kb log shows it",
    )


def add_filter_arguments(parser: ArgumentParser) -> None:
    """Add what narrows measurements down to a place."""
    parser.add_argument("--workload", metavar="NAME", help="only on this one")
    parser.add_argument(
        "--device", metavar="NAME", help="only on this GPU or CPU; a part of its name is enough"
    )


def add_gpu_arguments(parser: ArgumentParser) -> None:
    """Add what names a GPU or an architecture."""
    parser.add_argument(
        "--gpu", metavar="NAME", help="the GPU, as the driver or kb show devices says"
    )
    parser.add_argument(
        "--arch", metavar="CC", help="or an architecture: 8.9 or sm_89; kb show architectures"
    )


def add_metric_arguments(parser: ArgumentParser) -> None:
    """Add the headline flags, the GPU, and any other metric."""
    parser.add_argument(
        "--speedup", metavar="X", help="reference time / our time; above 1 is faster"
    )
    parser.add_argument(
        "--bandwidth", metavar="SHARE", help="share of peak memory bandwidth, 0 to 1"
    )
    parser.add_argument("--occupancy", metavar="SHARE", help="achieved occupancy, 0 to 1 or 40%%")
    parser.add_argument("--kernel-us", metavar="US", help="kernel duration in microseconds")
    parser.add_argument(
        "--gpu", metavar="NAME", help="the GPU, as the driver or kb show devices says"
    )
    parser.add_argument(
        "--target", choices=TARGETS, default="cuda", help="where the numbers are from"
    )
    parser.add_argument(
        "--metric",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="any other metric; repeat",
    )


def read_metric_flags(options: Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """Return what ``metric_arguments`` read: values by metric id, and by headline flag.

    Raises:
        BadValueError: A metric without a value.
    """
    flags = {
        "speedup": options.speedup,
        "bandwidth": options.bandwidth,
        "occupancy": options.occupancy,
        "kernel-us": options.kernel_us,
    }
    headlines = {flag: value for flag, value in flags.items() if value is not None}
    return dict(_parse_metric(text) for text in options.metric), headlines


def _parse_metric(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if "\n" in text:
        raise BadValueError("--metric is one NAME=VALUE; of a report give the path with --profile")
    if not equals:
        raise BadValueError(f"--metric {text!r} has no value; write --metric {name}=0.5")
    return name.strip(), value.strip()


def parse_written_file(text: str) -> Path:
    """Return the path of a file that a command writes besides its answer on standard output."""
    if text == "-":
        raise ArgumentTypeError("'-' is not standard output here, where the answer is; name a file")
    return Path(text)


def parse_seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value


def parse_positive_int(text: str) -> int:
    """Parse a whole number above zero."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 10**6:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 to 999999")
    return int(text)


_FACTS = (
    ("--sm-count", "N", "SMs"),
    ("--clock-mhz", "MHZ", "clock of the SMs under load"),
    ("--dram-gbps", "GBPS", "memory bandwidth of the data sheet"),
    ("--l2-mb", "MIB", "size of L2"),
    ("--fp64-tflops", "X", "peak of double precision"),
    ("--fp32-tflops", "X", "peak without tensor cores; from SMs and clock otherwise"),
    ("--tf32-tflops", "X", "dense peak of the tensor cores"),
    ("--fp16-tflops", "X", "dense peak of the tensor cores, also of bf16"),
    ("--fp8-tflops", "X", "dense peak of the tensor cores"),
    ("--fp4-tflops", "X", "dense peak of the tensor cores"),
)


def add_gpu_fact_arguments(parser: ArgumentParser, *, architecture: bool = False) -> None:
    """Add what describes a GPU, on top of its architecture or instead of a listed GPU's numbers.

    Args:
        parser: The parser of a command that has ``--gpu``.
        architecture: Whether to add ``--arch`` too.
    """
    group = parser.add_argument_group("a GPU that kb show devices does not list")
    if architecture:
        group.add_argument("--arch", metavar="CC", help="its architecture: 10.3 or sm_103")
    for flag, metavar, meaning in _FACTS:
        group.add_argument(flag, metavar=metavar, help=meaning)


def read_gpu_facts(options: Namespace) -> dict[str, str]:
    """Return the numbers that were given, by key of ``actions.project.hardware.GIVEN_FACTS``."""
    names = [flag.removeprefix("--").replace("-", "_") for flag, _, _ in _FACTS]
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def read_text_argument(path: str) -> str:
    """Return the text of a file, which ends with a line break; ``-`` is standard input.

    Raises:
        KbError: The file cannot be read.
    """
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise KbError(f"cannot read {path}: {error.strerror}") from error
    return data.decode("utf-8", errors="replace").rstrip("\n") + "\n"
