"""Arguments that several commands share."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError


def kernel_arguments(parser: ArgumentParser, *, workload: bool = True) -> None:
    """Add what names a variant of a kernel on a target."""
    parser.add_argument("kernel", help="the kernel's name; kb show kernels lists them")
    parser.add_argument("--variant", metavar="ID", help="default: the plain one")
    parser.add_argument(
        "--target",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto takes CUDA where there is a GPU and nvcc",
    )
    if workload:
        parser.add_argument("--workload", metavar="NAME", help="default: the target's default")
    json_argument(parser)


def gpu_arguments(parser: ArgumentParser) -> None:
    """Add what names a GPU or an architecture."""
    parser.add_argument(
        "--gpu", metavar="NAME", help="the GPU, as the driver or kb show devices says"
    )
    parser.add_argument(
        "--arch", metavar="CC", help="or an architecture: 8.9 or sm_89; kb show architectures"
    )


def json_argument(parser: ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value
