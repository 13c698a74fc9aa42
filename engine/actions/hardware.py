"""Finds a GPU or an architecture by any of its names, with the limits for the calculators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.decide.parse_metric import resolve_device
from kernelkb.decide.residency import build_limits
from kernelkb.decide.rules import HardwareTables
from kernelkb.device_math.limits import Limits
from kernelkb.errors import BadValueError, UnknownNameError

_ARCHITECTURE = re.compile(r"(?:sm|compute)?_?(\d{1,2})\.?(\d)[af]?")


class GpuSpec(NamedTuple):
    """A GPU product, or an architecture, with its limits."""

    id: str | None
    """None: an architecture, not a product."""
    title: str
    cc: str
    """Compute capability, such as ``9.0``."""
    """Compute capability, such as ``9.0``."""
    limits: Limits
    facts: Mapping[str, Any]
    """The fields of ``kernelkb.model.device.Device``; empty for an architecture."""
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


def find_requested_spec(gpu: str | None, architecture: str | None) -> GpuSpec:
    """Return the GPU or the architecture, whichever is named.

    Raises:
        UnknownNameError: It does not exist.
        BadValueError: Neither or both were given.
    """
    if bool(gpu) == bool(architecture):
        raise BadValueError(
            "name one of the two: a GPU (--gpu h100-sxm) or an architecture (--arch 9.0)"
        )
    return find_gpu_spec(gpu) if gpu else find_architecture_spec(architecture or "")


def _make_gpu_spec(
    hardware: HardwareTables, cc: str, device: str | None, facts: Mapping[str, Any]
) -> GpuSpec:
    title = facts["title"] if facts else f"any GPU of compute capability {cc}"
    floor = hardware["common"]["launch_floor_us"]
    return GpuSpec(device, title, cc, build_limits(hardware, cc), facts, floor)
