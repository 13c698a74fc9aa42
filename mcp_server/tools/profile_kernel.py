"""profile_kernel: collect the metrics that explain one variant."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ToolAnnotations

from engine.model.measurement import Profile
from mcp_server.edge import compact, in_thread
from mcp_server.results import ProfileResult, recommend_call
from mcp_server.tools.arguments import Kernel, Target, Variant, Workload

TITLE = "Profile a kernel variant"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)


async def profile_kernel(
    ctx: Context,
    kernel: Kernel,
    variant: Variant = None,
    target: Target = "auto",
    workload: Workload = None,
) -> Annotated[CallToolResult, ProfileResult]:
    """Explain one variant: the compiler's report on a CPU, Nsight Compute's counters on a GPU.

    Builds, checks and times it first; where that fails, stopped_by says why. next holds the
    call of recommend_fix. Counters explain and never time.
    """
    from engine.actions.kernels import profile
    from engine.render.measurements import bench_line, profile_line

    await ctx.report_progress(0, 1, f"profiling {kernel}")
    seen = await in_thread(lambda: profile(kernel, variant, target, workload))
    await ctx.report_progress(1, 1, "done")
    if not isinstance(seen, Profile):
        follow = f"mend {seen.variant}, then bench_kernel(kernel={kernel!r})"
        said = bench_line(seen)
        return compact(ProfileResult(summary=said, profile=None, stopped_by=seen, next=(follow,)))
    metrics = {name: float(f"{value:.6g}") for name, value in seen.metrics.items()}
    follow = recommend_call(seen)
    shown = seen.model_copy(update={"metrics": metrics})
    said = profile_line(seen)
    return compact(ProfileResult(summary=said, profile=shown, stopped_by=None, next=(follow,)))
