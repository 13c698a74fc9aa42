"""profile_kernel: collect the metrics that explain one variant."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ToolAnnotations

from kernelkb.model.records.measurement import Bench, Profile
from kernelkb_mcp.calls.arguments import Kernel, Target, Variant, Workload
from kernelkb_mcp.calls.jobs import make_tool_call
from kernelkb_mcp.calls.long_calls import run_long_call
from kernelkb_mcp.views.next_call import format_step
from kernelkb_mcp.views.results import ProfileResult, format_recommend_call

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
    """Explain one variant: the compiler's report on a CPU, ncu's counters on a GPU.

    Builds, checks and times it first; if that fails, stopped_by has the reason.
    """
    call = make_tool_call(
        "profile_kernel", kernel=kernel, variant=variant, target=target, workload=workload
    )

    def work() -> ProfileResult:
        from kernelkb.actions.kernels.measure_variant import profile_variant

        result = profile_variant(kernel, variant, target, workload)
        return (
            _build_profile_result(result)
            if isinstance(result, Profile)
            else _build_stopped_result(result, workload)
        )

    return await run_long_call(ctx, ProfileResult, call, work)


def _build_stopped_result(measured_bench: Bench, workload: str | None) -> ProfileResult:
    from kernelkb.actions.sessions.sessions import step_after_bench
    from kernelkb.render.text.measurements import describe_bench

    correct = f"correct the source of {measured_bench.variant}, by stopped_by.cure"
    again = format_step(step_after_bench(measured_bench, workload=workload))
    return ProfileResult(
        summary=describe_bench(measured_bench),
        profile=None,
        stopped_by=measured_bench,
        next=(correct, again),
    )


def _build_profile_result(measured_profile: Profile) -> ProfileResult:
    from kernelkb.render.text.measurements import describe_profile

    metrics = {name: float(f"{value:.6g}") for name, value in measured_profile.metrics.items()}
    shown = measured_profile.model_copy(update={"metrics": metrics})
    return ProfileResult(
        summary=describe_profile(measured_profile),
        profile=shown,
        stopped_by=None,
        next=(format_recommend_call(measured_profile),),
    )
