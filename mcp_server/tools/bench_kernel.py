"""bench_kernel: check and time one variant."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb.model.measurement import Bench
from kernelkb_mcp.jobs import make_tool_call
from kernelkb_mcp.long_calls import run_long_call
from kernelkb_mcp.results import BenchResult, format_recommend_call
from kernelkb_mcp.tools.arguments import Change, Kernel, Target, Variant, Workload

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
        Field(description="Another variant as one more rival.", max_length=60),
    ] = None,
    change: Change = None,
    again: Annotated[
        bool, Field(description="True measures what is on record. Default 0.")
    ] = False,
) -> Annotated[CallToolResult, BenchResult]:
    """Build and check a variant, and time it against the fastest rival.

    The verdict is faster, slower, inconclusive, incorrect or invalid, with a 95 % interval of the
    speedup: time of the fastest rival (torch, torch.compile, baselines) / our time. Only
    correct variants are timed; a wrong result, crash or hang comes back with a cure. Takes 10 to
    60 s.
    """
    which = {"kernel": kernel, "variant": variant, "target": target, "workload": workload}
    how = {"against": against, "change": change, "again": again}
    call = make_tool_call("bench_kernel", **which, **how)

    def work() -> BenchResult:
        from kernelkb.actions.kernels import bench_variant
        from kernelkb.render.measurements import describe_bench

        bench = bench_variant(
            kernel, variant, target, workload, against=against, change=change, again=again
        )
        return BenchResult(
            summary=describe_bench(bench), bench=bench, next=_list_next_calls(kernel, bench)
        )

    return await run_long_call(ctx, BenchResult, call, work)


def _list_next_calls(kernel: str, bench: Bench) -> tuple[str, ...]:
    again = f"kernel={kernel!r}, variant={bench.variant!r}, target={bench.target!r}"
    if bench.verdict in ("incorrect", "invalid"):
        return (f"fix {bench.variant}, then bench_kernel({again})",)
    follow = f"profile_kernel({again})"
    return (
        (follow, format_recommend_call(bench)) if bench.measurement or bench.metrics else (follow,)
    )
