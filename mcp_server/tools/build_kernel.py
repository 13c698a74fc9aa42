"""build_kernel: compile one variant."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ToolAnnotations

from kernelkb_mcp.jobs import make_tool_call
from kernelkb_mcp.long_calls import run_long_call
from kernelkb_mcp.results import BuildResult
from kernelkb_mcp.tools.arguments import Change, Kernel, Target, Variant

TITLE = "Build a kernel variant"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


async def build_kernel(
    ctx: Context,
    kernel: Kernel,
    variant: Variant = None,
    target: Target = "auto",
    change: Change = None,
) -> Annotated[CallToolResult, BuildResult]:
    """Compile one variant and return the compiler's findings.

    CPU: which inner loops were vectorised, or why not. GPU: registers, spills, stack and shared
    memory. A compiler's error is a result, in build.error, with a cure.
    """
    call = make_tool_call(
        "build_kernel", kernel=kernel, variant=variant, target=target, change=change
    )

    def work() -> BuildResult:
        from kernelkb.actions.building import build_variant
        from kernelkb.render.measurements import describe_build

        build = build_variant(kernel, variant, target, change=change)
        again = f"kernel={kernel!r}, variant={build.variant!r}, target={build.target!r}"
        follow = f"{'build' if build.error else 'bench'}_kernel({again})"
        return BuildResult(summary=describe_build(build), build=build, next=(follow,))

    return await run_long_call(ctx, BuildResult, call, work)
