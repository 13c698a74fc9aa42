"""bench_kernel: check and time one variant."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from mcp_server.edge import compact, in_thread
from mcp_server.results import BenchResult, recommend_call
from mcp_server.tools.arguments import Kernel, Target, Variant, Workload

TITLE = "Check and time a kernel variant"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)


async def bench_kernel(
    ctx: Context,
    kernel: Kernel,
    variant: Variant = None,
    target: Target = "auto",
    workload: Workload = None,
    against: Annotated[
        str | None,
        Field(description="Another variant to compare with, besides torch.", max_length=60),
    ] = None,
) -> Annotated[CallToolResult, BenchResult]:
    """Build a variant, check it against the reference, and time it next to the fastest rival.

    The verdict is faster, slower, inconclusive, incorrect or invalid, with a 95 % interval of the
    speedup (time of the fastest of torch, torch.compile and baselines / our time). Only a right
    variant is timed; a wrong, crashing or hanging one comes back with what happened and a cure.
    Takes 10 to 60 seconds.
    """
    from engine.actions.kernels import bench
    from engine.render.measurements import bench_line

    await ctx.report_progress(0, 1, f"building, checking and timing {kernel}")
    timed = await in_thread(lambda: bench(kernel, variant, target, workload, against=against))
    await ctx.report_progress(1, 1, timed.verdict)
    again = f"kernel={kernel!r}, variant={timed.variant!r}, target={timed.target!r}"
    bad = timed.verdict in ("incorrect", "invalid")
    follow = (
        (f"mend {timed.variant}, then bench_kernel({again})",)
        if bad
        else (f"profile_kernel({again})", recommend_call(timed))
    )
    return compact(BenchResult(summary=bench_line(timed), bench=timed, next=follow))
