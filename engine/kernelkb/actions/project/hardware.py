"""Finds a GPU or an architecture by any of its names, with the limits for the calculators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.device_facts import add_described_gpu, build_limits, describe_gpu
from kernelkb.decide.parse_metric import find_device, resolve_device
from kernelkb.decide.rules import CompiledRules, HardwareTables
from kernelkb.device_math.occupancy import Limits
from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.profiles.launch import ProfiledLaunch
from kernelkb.units import parse_positive_number

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


_REPORTED_UNITS = {
    "sm_count": "SMs",
    "sm_clock_mhz": "MHz",
    "dram_gbps": "GB/s",
    "l2_mb": "MB of L2",
}


_LONG_CYCLES = 1e5
"""Of a kernel, from which its start and end are below a hundredth of its time: 2,000 cycles or so
each, which count as idle."""


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


class ReportedGpu(NamedTuple):
    """The GPU of a report."""

    rules: CompiledRules
    """Those given, with the GPU added where the catalogue lacks it."""
    device: str | None
    """Its id in the rules; None: nothing is known of it."""
    note: str
    """What the answer says of it; may be empty."""


def find_reported_gpu(
    rules: CompiledRules, launch: ProfiledLaunch, gpu: str | None = None
) -> ReportedGpu:
    """Find the GPU of a launch: as named by the caller, in the catalogue, or as it is described.

    Args:
        rules: The compiled rules.
        launch: Of a report.
        gpu: Any name of a GPU, by the caller.

    Raises:
        UnknownNameError: The caller names a GPU that does not exist.
        BadValueError: The report is of another GPU than the caller names.
    """
    reported = find_device(rules["device_names"], launch.device) if launch.device else None
    if gpu:
        named = resolve_device(rules, gpu)
        if _contradicts(launch, rules, named, reported):
            is_of = launch.device or f"a GPU of compute capability {launch.cc}"
            raise BadValueError(f"this is a report of {is_of}, not of {gpu}; leave out --gpu")
        return ReportedGpu(rules, named, "")
    if reported:
        return ReportedGpu(rules, reported, "")
    unlisted = f"{launch.device} is not in the catalogue"
    missing = unlisted if launch.device else "the GPU is not named"
    if launch.cc not in rules["hardware"]["architectures"]:
        known = f"{missing}, so its limits are unknown" if launch.device or launch.cc else ""
        return ReportedGpu(rules, None, known)
    given = dict(launch.gpu)
    if count := launch.metrics.get("sm_count"):
        given.setdefault("sm_count", count)
    facts = "".join(f", {fact}" for fact in _describe_facts(given))
    if "sm_count" not in given and (count := _count_sms(launch.metrics)):
        given["sm_count"] = count
        facts += f"; one block kept 1 of about {count:.0f} SMs busy"
    described, device = add_described_gpu(rules, describe_gpu(rules, launch.cc, None, given))
    return ReportedGpu(described, device, f"{missing}: the report says {device}{facts}")


def _contradicts(
    launch: ProfiledLaunch, rules: CompiledRules, named: str, reported: str | None
) -> bool:
    """Return whether a report is of another GPU, or describes one, than that of the catalogue.

    One whose name is known may show fewer SMs than it has, as a part of it does.
    """
    known = rules["hardware"]["devices"][named]
    if launch.cc and launch.cc != known["cc"]:
        return True
    if reported:
        return reported != named
    count = launch.gpu.get("sm_count") or launch.metrics.get("sm_count")
    return count is not None and bool(count != known["sm_count"])


def _count_sms(metrics: Mapping[str, float]) -> float | None:
    """Return the number of SMs of which one block kept one busy, from the mean over all of them."""
    elapsed, mean = (metrics.get(f"sm_{name}_cycles", 0.0) for name in ("elapsed", "active_mean"))
    if metrics.get("grid_block_count") != 1 or not mean or elapsed < _LONG_CYCLES:
        return None
    return float(round(elapsed / mean))


def _describe_facts(given: Mapping[str, float]) -> Iterator[str]:
    for field, unit in _REPORTED_UNITS.items():
        if field in given:
            yield f"{given[field]:.4g} {unit}"


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
