"""The occupancy calculator: blocks per SM, the limiting resource, the smallest useful change."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from kernelkb.actions.project.hardware import GpuSpec, find_requested_spec
from kernelkb.device_math.next_step import (
    LaunchStep,
    better_block_size,
    one_more_block,
    register_steps,
    spare_registers,
    spare_shared_bytes,
)
from kernelkb.device_math.occupancy import (
    Launch,
    Limits,
    Occupancy,
    largest_shared_bytes,
    occupancy,
    register_cap,
    registers_for_blocks,
    waves,
)
from kernelkb.device_math.parse_size import parse_byte_count, parse_whole_number
from kernelkb.errors import BadValueError

_MAX_GRID_BLOCKS = 2**31 - 1
"""Largest x dimension of a grid; CUDA C++ Programming Guide, table of technical specifications."""


class OccupancyQuery(NamedTuple):
    """A launch, its numbers as typed by the user."""

    threads: str | int
    """Per block."""
    registers: str | int
    """Per thread."""
    gpu: str | None = None
    """Any name of a GPU."""
    architecture: str | None = None
    """``8.9`` or ``sm_89``, instead of a GPU."""
    static_smem: str | int = 0
    """Bytes of a block, or text such as ``48KiB``."""
    dynamic_smem: str | int = 0
    """Dynamic shared memory of a block, in the same notation."""
    carveout: str | int | None = None
    """Preferred shared memory per SM, as a size or a percentage. None: the maximum."""
    barriers: str | int = 0
    """Named barriers of a block."""
    grid: str | int | None = None
    """Blocks of the whole launch. Needs a GPU, or an architecture and a number of SMs."""
    blocks: str | int | None = None
    """Wanted blocks per SM: the answer holds the registers and bytes that allow them."""
    given: Mapping[str, str | float] = MappingProxyType({})
    """Numbers of a GPU that is not listed; see ``actions.project.hardware.GIVEN_FACTS``."""


def analyze_occupancy(query: OccupancyQuery) -> dict[str, Any]:
    """Return the occupancy of one launch, its limits and possible changes, as plain data.

    Raises:
        UnknownNameError: No such GPU or architecture.
        BadValueError: A number outside what a launch can have.
    """
    target = find_requested_spec(query.gpu, query.architecture, query.given)
    limits = target.limits
    launch = _parse_launch(limits, query)
    grid = (
        None if query.grid is None else parse_whole_number("grid", query.grid, 1, _MAX_GRID_BLOCKS)
    )
    result = occupancy(limits, launch)
    return {
        "gpu": target.id,
        "title": target.title,
        "architecture": target.cc,
        "launch": {**launch._asdict(), "grid_blocks": grid},
        **_result_to_dict(limits, launch, result),
        "next_step": _step_to_dict(one_more_block(limits, launch)),
        "better_block_size": _step_to_dict(better_block_size(limits, launch)),
        "wanted": _compute_block_goal(limits, launch, query.blocks),
        "register_cap": register_cap(limits, launch.threads),
        "register_steps": [row._asdict() for row in register_steps(limits, launch)],
        "waves": _compute_waves(target, result, grid) if grid else None,
    }


def _parse_launch(limits: Limits, query: OccupancyQuery) -> Launch:
    return Launch(
        threads=parse_whole_number("threads per block", query.threads, 1, limits.threads_block),
        registers=parse_whole_number(
            "registers per thread", query.registers, 1, limits.registers_thread
        ),
        static_bytes=parse_byte_count("static shared memory", query.static_smem),
        dynamic_bytes=parse_byte_count("dynamic shared memory", query.dynamic_smem),
        barriers=parse_whole_number("barriers", query.barriers, 0, limits.barriers_block),
        carveout_bytes=_parse_carveout(limits, query.carveout),
    )


def _result_to_dict(limits: Limits, launch: Launch, result: Occupancy) -> dict[str, Any]:
    shared = result.shared
    return {
        "possible": not result.obstacles,
        "obstacles": list(result.obstacles),
        "blocks_per_sm": result.blocks,
        "warps_per_sm": result.warps,
        "warps_max": limits.warps,
        "occupancy": result.share,
        "limits": result.limits._asdict(),
        "limited_by": list(result.limiters),
        "registers": {
            "block": result.registers_block,
            "sm": limits.registers,
            "spare_per_thread": spare_registers(limits, launch),
        },
        "shared_memory": {
            **shared._asdict(),
            "reserved": limits.shared_reserved,
            "static_limit": limits.shared_static,
            "opt_in_limit": limits.shared_opt_in,
            "spare_per_block": spare_shared_bytes(limits, launch),
        },
    }


def _parse_carveout(limits: Limits, text: str | int | None) -> int | None:
    if text is None:
        return None
    word = str(text).strip()
    if word.endswith("%"):
        return limits.shared * parse_whole_number("carve-out in percent", word[:-1], 0, 100) // 100
    size = parse_byte_count("carve-out", word)
    if size > limits.shared:
        raise BadValueError(
            f"carve-out is {size} bytes, but an SM has {limits.shared}; write 100% for the most"
        )
    return size


def _step_to_dict(step: LaunchStep | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return {
        "changes": [change._asdict() for change in step.changes],
        "blocks_per_sm": step.occupancy.blocks,
        "warps_per_sm": step.occupancy.warps,
        "occupancy": step.occupancy.share,
    }


def _compute_block_goal(
    limits: Limits, launch: Launch, blocks: str | int | None
) -> dict[str, Any] | None:
    if blocks is None:
        return None
    goal = parse_whole_number("wanted blocks per SM", blocks, 1, limits.blocks)
    room = limits.warps // limits.warps_per_block(launch.threads)
    if goal > room:
        raise BadValueError(
            f"{goal} blocks of {launch.threads} threads do not fit an SM of {limits.threads} "
            f"threads; ask for {room} or for smaller blocks"
        )
    return {
        "blocks_per_sm": goal,
        "registers": registers_for_blocks(limits, launch.threads, goal),
        "shared_bytes": largest_shared_bytes(limits, goal, launch.carveout_bytes),
    }


def _compute_waves(target: GpuSpec, result: Occupancy, grid: int) -> dict[str, Any] | None:
    if not target.facts.get("sm_count"):
        raise BadValueError(
            "waves need a number of SMs, which an architecture has not; name the GPU with --gpu "
            "or give --sm-count"
        )
    sm_count = int(target.facts["sm_count"])
    counts = waves(grid, result.blocks, sm_count)
    return {"sm_count": sm_count, **counts._asdict()} if counts else None
