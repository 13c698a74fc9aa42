"""calculate_limits: the occupancy of a launch, and the roofline of some work."""

from __future__ import annotations

import re
from typing import Annotated, Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from kernelkb_mcp.results import LimitsResult
from kernelkb_mcp.tool_adapter import result_from_record, run_inline

TITLE = "Calculate occupancy or roofline"
HINTS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_ARCHITECTURE = re.compile(r"(sm|compute)?_?[0-9]{1,2}\.?[0-9][af]?", re.IGNORECASE)

Count = Annotated[int, Field(strict=True)] | SkipJsonSchema[str] | None
"""Text is taken, too, as on the command line: ``48KiB``, ``2.5e9``."""
Size = Annotated[str, Field(max_length=40)] | SkipJsonSchema[int] | None


async def calculate_limits(
    gpu: Annotated[str, Field(description="GPU; for occupancy also 9.0.", max_length=100)],
    threads: Annotated[Count, Field(description="Per block.")] = None,
    registers: Annotated[Count, Field(description="Per thread.")] = None,
    smem: Annotated[Size, Field(description="Per block: 48KiB, 128x64x2.")] = None,
    grid: Annotated[Count, Field(description="Blocks.")] = None,
    bytes: Annotated[  # noqa: A002 - what a client sees
        Size, Field(description="To move: 1GiB.")
    ] = None,
    flop: Annotated[
        Annotated[float, Field(strict=True)] | SkipJsonSchema[str] | None,
        Field(description="To compute."),
    ] = None,
    dtype: Annotated[
        str | None,
        Field(description="Such as tf32; default: the fastest.", max_length=20),
    ] = None,
    kernel_us: Annotated[
        Annotated[float, Field(strict=True)] | SkipJsonSchema[str] | None,
        Field(description="Measured microseconds."),
    ] = None,
) -> Annotated[CallToolResult, LimitsResult]:
    """Calculate occupancy (of threads, registers, smem) or roofline (of bytes, flop).

    Blocks per SM, what limits them, the next step; or the shortest time and which roof binds.
    """
    launch = {
        "threads": threads,
        "registers": registers,
        "dynamic_smem": smem,  # the limit of static memory is the compiler's to report
        "grid": grid,
    }
    work = {"bytes": bytes, "flop": flop, "dtype": dtype, "us": kernel_us}
    asked_launch, asked_work = _drop_absent(launch), _drop_absent(work)
    if not asked_launch and not asked_work:
        raise ToolError("give threads and registers for the occupancy, bytes or flop for the roof")
    for name in ("threads", "registers") if asked_launch else ():
        if name not in asked_launch:
            raise ToolError(f"occupancy needs threads and registers; {name} is absent")
    return result_from_record(run_inline(lambda: _calculate(gpu, asked_launch, asked_work)))


def _drop_absent(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _calculate(gpu: str, launch: dict[str, Any], work: dict[str, Any]) -> LimitsResult:
    from kernelkb.actions.occupancy import OccupancyQuery, analyze_occupancy
    from kernelkb.actions.roofline import RooflineQuery, analyze_roofline
    from kernelkb.render.occupancy import format_occupancy_lines
    from kernelkb.render.roofline import format_roofline_lines

    is_architecture = _ARCHITECTURE.fullmatch(gpu.strip()) is not None
    named = (None, gpu) if is_architecture else (gpu, None)
    query = OccupancyQuery(gpu=named[0], architecture=named[1], **launch) if launch else None
    occupancy = analyze_occupancy(query) if query else None
    roofline = analyze_roofline(RooflineQuery(gpu, **work)) if work else None
    said = [format_occupancy_lines(occupancy)] if occupancy else []
    said += [format_roofline_lines(roofline)] if roofline else []
    return LimitsResult(
        summary="; ".join(next(lines) for lines in said),
        occupancy=occupancy,
        roofline=roofline,
        next=("bench_kernel(kernel=...)",),
    )
