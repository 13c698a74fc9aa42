"""profile_kernel: collect the metrics that explain one variant."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ToolAnnotations

from kernelkb.model.measurement import Bench, Profile
from kernelkb_mcp.jobs import asked
from kernelkb_mcp.long_calls import answered
from kernelkb_mcp.results import ProfileResult, recommend_call
from kernelkb_mcp.tools.arguments import Kernel, Target, Variant, Workload

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
    call = asked("profile_kernel", kernel=kernel, variant=variant, target=target, workload=workload)

    def work() -> ProfileResult:
        from kernelkb.actions.kernels import profile

        seen = profile(kernel, variant, target, workload)
        return _explained(seen) if isinstance(seen, Profile) else _stopped(kernel, seen)

    return await answered(ctx, ProfileResult, call, work)


def _stopped(kernel: str, timed: Bench) -> ProfileResult:
    from kernelkb.render.measurements import bench_line

    follow = f"mend {timed.variant}, then bench_kernel(kernel={kernel!r})"
    return ProfileResult(summary=bench_line(timed), profile=None, stopped_by=timed, next=(follow,))


def _explained(seen: Profile) -> ProfileResult:
    from kernelkb.render.measurements import profile_line

    metrics = {name: float(f"{value:.6g}") for name, value in seen.metrics.items()}
    shown = seen.model_copy(update={"metrics": metrics})
    return ProfileResult(
        summary=profile_line(seen), profile=shown, stopped_by=None, next=(recommend_call(seen),)
    )
