"""profile_kernel: collect the metrics that explain one variant, or any program."""

from __future__ import annotations

import shlex
from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb.model.records.measurement import Bench, Profile
from kernelkb_mcp.calls.arguments import Kernel, Target, Variant, Workload
from kernelkb_mcp.calls.jobs import make_tool_call
from kernelkb_mcp.calls.long_calls import run_long_call
from kernelkb_mcp.calls.tool_adapter import get_server_config, result_from_record
from kernelkb_mcp.views.next_call import format_step
from kernelkb_mcp.views.recommendation import build_program_fields
from kernelkb_mcp.views.results import ProfileResult, format_recommend_call

TITLE = "Profile a kernel variant, or a program"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
Command = Annotated[
    str | None,
    Field(max_length=2000, description="A program; kernel: a regex."),
]


async def profile_kernel(
    ctx: Context,
    kernel: Kernel = "",
    variant: Variant = None,
    target: Target = "auto",
    workload: Workload = None,
    command: Command = None,
    clocks: Annotated[bool, Field(description="Time between waits. Default 0.")] = False,
) -> Annotated[CallToolResult, ProfileResult]:
    """Explain a variant (CPU: compiler's report, GPU: ncu's counters), or any program.

    Builds, checks and times it first; stopped_by has why it failed.
    """
    if command is not None:
        if variant or workload or target != "auto" or clocks:
            raise ToolError("variant, target, workload and clocks are of a kernel; leave them out")
        return await _profile_command(ctx, command, kernel)
    if not kernel:
        raise ToolError("give kernel, or command='python x.py' for a program")
    where = {"kernel": kernel, "variant": variant, "target": target, "workload": workload}
    call = make_tool_call("profile_kernel", **where, clocks=clocks or None)

    def work() -> ProfileResult:
        from kernelkb.actions.kernels.measure_variant import profile_variant
        from kernelkb.actions.kernels.profile_program import clock_variant

        if clocks:
            return _build_clocks_result(clock_variant(kernel, variant, target, workload))
        result = profile_variant(kernel, variant, target, workload)
        return (
            _build_profile_result(result)
            if isinstance(result, Profile)
            else _build_stopped_result(result, workload)
        )

    return await run_long_call(ctx, ProfileResult, call, work)


async def _profile_command(ctx: Context, command: str, pattern: str) -> CallToolResult:
    """Run a program under profilers, where the server was started for that."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ToolError(f"command: {error}; write it as for a shell") from error
    config = get_server_config(ctx)
    call = make_tool_call("profile_kernel", command=command, kernel=pattern or None)
    if not config.run_programs:
        return result_from_record(_build_refused_result(shlex.join(words), call.shell_command))

    def work() -> ProfileResult:
        from kernelkb.actions.kernels.profile_program import ProgramOptions, profile_program

        options = ProgramOptions(pattern or None, prints_to="answer")
        answer = profile_program(words, options)
        return ProfileResult(
            profile=None, stopped_by=None, **build_program_fields(answer, config.tool_names)
        )

    return await run_long_call(ctx, ProfileResult, call, work)


def _build_refused_result(command: str, same: str) -> ProfileResult:
    return ProfileResult(
        summary="this server runs no programs (kb-mcp --run-programs does): run the first of next "
        "in a shell and read what it prints; or, without kb on that machine, the second",
        profile=None,
        stopped_by=None,
        next=(
            f"in a shell: {same}",
            f"in a shell: nsys profile --trace=cuda,nvtx,osrt -o timeline {command}",
            "recommend_fix(profile='timeline.nsys-rep')",
        ),
    )


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


def _build_clocks_result(clocked: Profile) -> ProfileResult:
    where = f"kernel={clocked.kernel!r}, variant={clocked.variant!r}"
    return ProfileResult(
        summary=f"{clocked.variant} on {clocked.workload}: {clocked.evidence[0]}",
        profile=clocked,
        stopped_by=None,
        next=(f"profile_kernel({where}, workload={clocked.workload!r})",),
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
