"""calculate_limits: the occupancy of a launch, and the roofline of some work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from kernelkb.errors import KbError
from kernelkb_mcp.calls.tool_adapter import result_from_record
from kernelkb_mcp.views.next_call import format_next_call
from kernelkb_mcp.views.results import LimitsResult

TITLE = "Calculate occupancy or roofline"
HINTS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_FLAG = re.compile(r"--([a-z][a-z0-9-]*)")
_ARCHITECTURE = re.compile(r"(sm|compute)?_?[0-9]{1,2}\.?[0-9][af]?", re.IGNORECASE)

Count = Annotated[int, Field(strict=True)] | SkipJsonSchema[str] | None
"""Text is taken, too, as on the command line: ``48KiB``, ``2.5e9``."""
Size = Annotated[str, Field(max_length=40)] | SkipJsonSchema[int] | None
Number = Annotated[float, Field(strict=True)] | SkipJsonSchema[str] | None
Facts = Annotated[
    dict[str, float | SkipJsonSchema[str]] | None,
    Field(description="Of an unlisted GPU: sm_count, clock_mhz, dram_gbps, l2_mb."),
]


async def calculate_limits(
    gpu: Annotated[str, Field(description="GPU, or architecture 9.0.", max_length=100)],
    threads: Annotated[Count, Field(description="Per block.")] = None,
    registers: Annotated[Count, Field(description="Per thread.")] = None,
    smem: Annotated[Size, Field(description="Per block: 48KiB, 128x64x2.")] = None,
    grid: Annotated[Count, Field(description="Blocks.")] = None,
    bytes: Annotated[  # noqa: A002 - what a client sees
        Size, Field(description="To move: 1GiB.")
    ] = None,
    flop: Annotated[Number, Field(description="To do.")] = None,
    dtype: Annotated[
        str | None, Field(description="Such as tf32; default: the fastest.", max_length=20)
    ] = None,
    kernel_us: Annotated[Number, Field(description="In microseconds.")] = None,
    facts: Facts = None,
) -> Annotated[CallToolResult, LimitsResult]:
    """Calculate occupancy (of threads, registers, smem) or roofline (of bytes, flop).

    Blocks per SM and their limit; or the shortest time and its roof.
    """
    launch = {
        "threads": threads,
        "registers": registers,
        "dynamic_smem": smem,  # the limit of static memory is the compiler's to report
        "grid": grid,
    }
    work = {"bytes": bytes, "flop": flop, "dtype": dtype, "us": kernel_us}
    asked_launch, asked_work = _drop_absent(launch), _drop_absent(work)
    if not gpu.strip():
        raise ToolError("gpu is empty; read_entry(id='devices') lists GPUs")
    if not asked_launch and not asked_work:
        raise ToolError("give threads and registers for the occupancy, bytes or flop for the roof")
    for name in ("threads", "registers") if asked_launch else ():
        if name not in asked_launch:
            raise ToolError(f"occupancy needs threads and registers; {name} is absent")
    try:
        return result_from_record(_calculate(gpu, asked_launch, asked_work, facts or {}))
    except KbError as error:  # a flag of kb that is absent is a fact here
        raise ToolError(_FLAG.sub(_name_argument, error.format_text(format_next_call))) from error


def _name_argument(flag: re.Match[str]) -> str:
    """Return the argument that says the same as a flag of ``kb``."""
    name = flag[1].replace("-", "_")
    return f"facts={{{name!r}: ...}}" if "_" in name else name


def _drop_absent(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _calculate(
    gpu: str, launch: dict[str, Any], work: dict[str, Any], facts: dict[str, str | float]
) -> LimitsResult:
    from kernelkb.actions.advice.calculators import (
        OccupancyQuery,
        RooflineQuery,
        analyze_occupancy,
        analyze_roofline,
    )
    from kernelkb.render.text.calculators import format_occupancy_lines, format_roofline_lines

    is_architecture = _ARCHITECTURE.fullmatch(gpu.strip()) is not None
    named = (None, gpu) if is_architecture else (gpu, None)
    which: dict[str, Any] = {"gpu": named[0], "architecture": named[1], "given": facts}
    occupancy = analyze_occupancy(OccupancyQuery(**which, **launch)) if launch else None
    roofline = analyze_roofline(RooflineQuery(**which, **work)) if work else None
    said = [format_occupancy_lines(occupancy)] if occupancy else []
    said += [format_roofline_lines(roofline)] if roofline else []
    return LimitsResult(
        summary="; ".join(next(lines) for lines in said),
        occupancy=occupancy,
        roofline=roofline,
        next=(f"search_knowledge(query={_describe_bound(occupancy, roofline)!r})",),
    )


def _describe_bound(occupancy: Mapping[str, Any] | None, roofline: Mapping[str, Any] | None) -> str:
    """Return words to search the knowledge for: the resource that limits the launch or the work."""
    if occupancy:
        return f"occupancy limited by {' and '.join(occupancy['limited_by'])}"
    return f"{roofline['binds'] if roofline else ''} bound"
