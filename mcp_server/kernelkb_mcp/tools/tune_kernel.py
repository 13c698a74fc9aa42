"""tune_kernel: search the configurations of a tunable variant."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb_mcp.calls.arguments import Budget, Kernel, Target, Workload, parse_budget
from kernelkb_mcp.calls.jobs import JobRegistry, ToolCall, current_job, make_tool_call
from kernelkb_mcp.calls.long_calls import format_wait_call, get_jobs, run_long_call
from kernelkb_mcp.views.results import TuneResult

TITLE = "Search a variant's configurations"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)


async def tune_kernel(
    ctx: Context,
    kernel: Kernel,
    variant: Annotated[
        str | None, Field(description="Default: the first with tunables.", max_length=60)
    ] = None,
    target: Target = "auto",
    workload: Workload = None,
    budget: Budget = "10m",
    trials: Annotated[int | None, Field(ge=1, description="New trials, at least 1.")] = None,
) -> Annotated[CallToolResult, TuneResult]:
    """Search kernel.yaml's tunables for the fastest configuration, as a job.

    Each is built, checked and timed, the fastest again in turns. Trials are kept: the
    same call goes on, also after a cancel.
    """
    call = make_tool_call(
        "tune_kernel",
        kernel=kernel,
        variant=variant,
        target=target,
        workload=workload,
        budget=budget,
        trials=trials,
    )
    budget_s = parse_budget(budget)
    _refuse_second_search(get_jobs(ctx), call)

    def work() -> TuneResult:
        from kernelkb.tune.plan import TuningOptions, plan_tuning
        from kernelkb.tune.tune import tune
        from kernelkb_mcp.views.tuning import TrialReporter, build_tune_result

        plan = plan_tuning(kernel, variant, target, workload)
        options = TuningOptions(budget_s=budget_s, max_trials=trials)
        return build_tune_result(plan, tune(plan, options, TrialReporter(plan)), str(call))

    return await run_long_call(ctx, TuneResult, call, work)


def _refuse_second_search(jobs: JobRegistry, call: ToolCall) -> None:
    """Raise ToolError if the same call is running, whose handle the client may have lost."""
    for job in jobs:
        if job.is_running and job.call == call and job is not current_job():
            raise ToolError(f"this search is running; {format_wait_call(job)} waits for it")
