"""A GPU or an architecture by any of its names, with the limits that calculators need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.actions.program import decision_program
from engine.decide.program import Hardware
from engine.decide.values import device_named
from engine.device_math.limits import Limits
from engine.errors import BadValueError, UnknownNameError

_ARCHITECTURE = re.compile(r"(?:sm|compute)?_?(\d{1,2})\.?(\d)[af]?")


class Gpu(NamedTuple):
    """What to calculate for."""

    id: str | None
    """None: an architecture, not a product."""
    title: str
    cc: str
    limits: Limits
    facts: Mapping[str, Any]
    """The fields of ``engine.model.device.Device``; empty for an architecture."""
    launch_floor_us: float

    @property
    def sm(self) -> str:
        """The architecture as compilers write it."""
        return f"sm_{self.cc.replace('.', '')}"


def gpu_named(name: str) -> Gpu:
    """Return a GPU by our id or any name that drivers and people use for it.

    Raises:
        UnknownNameError: No such GPU.
    """
    program = decision_program()
    device = device_named(program, name)
    facts = program["hardware"]["devices"][device]
    return _gpu(program["hardware"], facts["cc"], device, facts)


def architecture_named(name: str) -> Gpu:
    """Return an architecture by ``8.9``, ``89`` or ``sm_89``; the ``a`` of ``sm_90a`` is ignored.

    Raises:
        UnknownNameError: No such architecture.
    """
    hardware = decision_program()["hardware"]
    found = _ARCHITECTURE.fullmatch(name.strip().lower())
    cc = f"{found[1]}.{found[2]}" if found else name
    if cc not in hardware["architectures"]:
        known = hardware["architectures"]
        raise UnknownNameError("architecture", cc, known, "kb show architectures")
    return _gpu(hardware, cc, None, {})


def either_named(gpu: str | None, architecture: str | None) -> Gpu:
    """Return what one of the two names.

    Raises:
        UnknownNameError: It does not exist.
        BadValueError: Neither or both were given.
    """
    if bool(gpu) == bool(architecture):
        raise BadValueError(
            "name one of the two: a GPU (--gpu h100-sxm) or an architecture (--arch 9.0)"
        )
    return gpu_named(gpu) if gpu else architecture_named(architecture or "")


def limits_of(hardware: Hardware, cc: str) -> Limits:
    """Return the limits of an architecture that the program has."""
    common, own = hardware["common"], hardware["architectures"][cc]
    return Limits(
        warp=common["warp"],
        partitions=common["subpartitions"],
        threads=own["max_threads_sm"],
        threads_block=common["max_threads_block"],
        blocks=own["max_blocks_sm"],
        registers=common["regs_sm"],
        registers_block=common["regs_block"],
        registers_thread=common["regs_thread_max"],
        register_unit=common["reg_alloc_unit_per_warp"],
        shared=own["smem_sm"],
        shared_opt_in=own["smem_optin_block"],
        shared_static=common["static_smem_block"],
        shared_reserved=own["smem_reserved_block"],
        shared_unit=own["smem_gran"],
        carveouts=tuple(size * 1024 for size in own["carveouts_kb"]),
        barriers=own["barriers_sm"],
        barriers_block=common["barriers_block"],
    )


def _gpu(hardware: Hardware, cc: str, device: str | None, facts: Mapping[str, Any]) -> Gpu:
    title = facts["title"] if facts else f"any GPU of compute capability {cc}"
    floor = hardware["common"]["launch_floor_us"]
    return Gpu(device, title, cc, limits_of(hardware, cc), facts, floor)
