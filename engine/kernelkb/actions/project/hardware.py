"""Finds a GPU or an architecture by any of its names, with the limits for the calculators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.device_facts import add_described_gpu, build_limits, describe_gpu
from kernelkb.decide.parse_metric import resolve_device
from kernelkb.decide.rules import CompiledRules, HardwareTables
from kernelkb.device_math.occupancy import Limits
from kernelkb.device_math.parse_size import parse_positive_number
from kernelkb.errors import BadValueError, UnknownNameError

_ARCHITECTURE = re.compile(r"(?:sm|compute)?_?(\d{1,2})\.?(\d)[af]?")

GIVEN_FACTS = {
    "sm_count": "sm_count",
    "clock_mhz": "sm_clock_mhz",
    "dram_gbps": "dram_gbps",
    "l2_mb": "l2_mb",
    "fp64_tflops": "fp64_tflops",
    "fp32_tflops": "fp32_tflops",
    "tf32_tflops": "tf32_tensor_tflops",
    "fp16_tflops": "fp16_tensor_tflops",
    "fp8_tflops": "fp8_tensor_tflops",
    "fp4_tflops": "fp4_tensor_tflops",
}
"""What a user may say about a GPU, and the field of ``model.entries.quantities.Device``."""


class GpuSpec(NamedTuple):
    """A GPU product, or an architecture, with its limits."""

    id: str | None
    """None: an architecture, not a product."""
    title: str
    cc: str
    """Compute capability, such as ``9.0``."""
    limits: Limits
    facts: Mapping[str, Any]
    """The fields of ``model.entries.device.Device``; of an architecture those that were given."""
    launch_floor_us: float

    @property
    def sm(self) -> str:
        """The architecture as compilers write it."""
        return f"sm_{self.cc.replace('.', '')}"


def find_gpu_spec(name: str) -> GpuSpec:
    """Return a GPU by its id or by any name that drivers and people use for it.

    Raises:
        UnknownNameError: No such GPU.
    """
    program = load_compiled_rules()
    device = resolve_device(program, name)
    facts = program["hardware"]["devices"][device]
    return _make_gpu_spec(program["hardware"], facts["cc"], device, facts)


def find_architecture_spec(name: str) -> GpuSpec:
    """Return an architecture by ``8.9``, ``89`` or ``sm_89``; the ``a`` of ``sm_90a`` is ignored.

    Raises:
        UnknownNameError: No such architecture.
    """
    hardware = load_compiled_rules()["hardware"]
    match = _ARCHITECTURE.fullmatch(name.strip().lower())
    cc = f"{match[1]}.{match[2]}" if match else name
    if cc not in hardware["architectures"]:
        known = hardware["architectures"]
        raise UnknownNameError("architecture", cc, known, "show", id="architectures")
    return _make_gpu_spec(hardware, cc, None, {})


def find_requested_spec(
    gpu: str | None, architecture: str | None, given: Mapping[str, str | float] | None = None
) -> GpuSpec:
    """Return the GPU or the architecture, whichever is named, with the facts that are given.

    Args:
        gpu: Any name of a listed GPU.
        architecture: ``8.9`` or ``sm_89``, instead of a GPU.
        given: Numbers by a key of ``GIVEN_FACTS``; they replace those of a listed GPU, and
            describe one that is not listed.

    Raises:
        UnknownNameError: It does not exist.
        BadValueError: Neither or both were given, or a number is not positive.
    """
    if bool(gpu) == bool(architecture):
        raise BadValueError(
            "name one of the two: a GPU (--gpu h100-sxm) or an architecture (--arch 9.0)"
        )
    spec = find_gpu_spec(gpu) if gpu else find_architecture_spec(architecture or "")
    if not given:
        return spec
    rules = load_compiled_rules()
    fields = describe_gpu(rules, spec.cc, spec.id, _parse_given_facts(given))
    return spec._replace(title=fields["title"], facts=fields)


def describe_device(
    rules: CompiledRules,
    gpu: str | None,
    architecture: str | None,
    given: Mapping[str, str | float],
) -> tuple[CompiledRules, str]:
    """Return rules that hold a GPU that the user describes, and its id in them.

    Raises:
        UnknownNameError: No such GPU or architecture.
        BadValueError: Both or neither are named, or a number is not positive.
    """
    spec = find_requested_spec(gpu, architecture, given)
    fields = describe_gpu(rules, spec.cc, spec.id, _parse_given_facts(given))
    return add_described_gpu(rules, fields)


def _parse_given_facts(given: Mapping[str, str | float]) -> dict[str, float]:
    if unknown := given.keys() - GIVEN_FACTS.keys():
        known = ", ".join(GIVEN_FACTS)
        raise BadValueError(f"unknown fact of a GPU {min(unknown)!r}; known: {known}")
    return {
        GIVEN_FACTS[name]: parse_positive_number(name.replace("_", "-"), value)
        for name, value in given.items()
    }


def _make_gpu_spec(
    hardware: HardwareTables, cc: str, device: str | None, facts: Mapping[str, Any]
) -> GpuSpec:
    title = facts["title"] if facts else f"any GPU of compute capability {cc}"
    floor = hardware["common"]["launch_floor_us"]
    return GpuSpec(device, title, cc, build_limits(hardware, cc), facts, floor)
