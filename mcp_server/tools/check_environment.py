"""check_environment: what this machine can build and measure."""

from __future__ import annotations

from typing import Annotated

from mcp.types import CallToolResult, ToolAnnotations

from kernelkb_mcp.results import EnvironmentResult
from kernelkb_mcp.tool_adapter import result_from_record, run_in_thread
from kernelkb_mcp.tools.arguments import Target

TITLE = "Check what this machine can measure"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


async def check_environment(
    target: Target = "auto",
) -> Annotated[CallToolResult, EnvironmentResult]:
    """Look at GPU, driver, compiler, torch, ncu and its counters, clocks, disk and other users.

    Each line is ok, warning or failure, with its cure. While environment.machine is null nothing
    can be measured.
    """
    from kernelkb.actions.bench_target import validate_machine
    from kernelkb.actions.session_log import log_environment
    from kernelkb.render.measurements import describe_environment

    environment = await run_in_thread(lambda: validate_machine(target, fresh=True))
    await run_in_thread(lambda: log_environment(environment))
    broken = next((line for line in environment.lines if line.status == "failure"), None)
    follow = (
        ("read_entry(id='kernels')", "bench_kernel(kernel=...)")
        if broken is None
        else (broken.cure or broken.found,)
    )
    summary = describe_environment(environment)
    return result_from_record(
        EnvironmentResult(summary=summary, environment=environment, next=follow)
    )
