"""Arguments that describe a GPU that the catalogue does not list."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

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
