"""job: look after work that outlasted its call."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb_mcp.jobs import Job, Jobs
from kernelkb_mcp.long_calls import jobs_of, wait_for
from kernelkb_mcp.progress import how_far, watch
from kernelkb_mcp.results import JobResult
from kernelkb_mcp.tool_adapter import compact

TITLE = "Wait for, or end, a long job"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_MOST_LISTED = 8
_LONGEST_NEXT = 600
_SHORT_ERROR = 300
_END_S = 15.0
_BEGIN = "bench_kernel(kernel=...)"


async def job(
    ctx: Context,
    id: Annotated[  # noqa: A002 - the name that the handle has in every result
        str, Field(description="Handle. Without: list the jobs.", max_length=80)
    ] = "",
    action: Annotated[
        Literal["status", "wait", "cancel"], Field(description="Default status")
    ] = "status",
    wait_s: Annotated[
        float,
        Field(ge=0, le=45, allow_inf_nan=False, description="Longest wait, 0 to 45 s (default)"),
    ] = 45,
) -> Annotated[CallToolResult, JobResult]:
    """See, await or end work that outlasted its call and returned job.id.

    The result of one that is done is what its tool returns. Kept for an hour after its end.
    """
    jobs = jobs_of(ctx)
    if not id:
        if action != "status":
            raise ToolError(f"{action} needs an id; job() lists the jobs of this server")
        return compact(_listed(jobs))
    found = jobs.find(id)
    if action == "cancel":
        found.cancel()
        await watch(ctx, found, _END_S)
    elif action == "wait":
        await watch(ctx, found, wait_s)
    return compact(_shown(found))


def _listed(jobs: Jobs) -> JobResult:
    known = list(jobs)
    running = [one for one in known if one.running]
    said = f"{len(running)} at work, {len(known) - len(running)} ended"
    if len(known) > _MOST_LISTED:
        said += f"; the newest {_MOST_LISTED} of {len(known)} are shown"
    follow = [wait_for(one) for one in running] or [f"job(id={one.id!r})" for one in known]
    shown = tuple(one.state(_SHORT_ERROR) for one in known[:_MOST_LISTED])
    return JobResult(
        summary=said, job=None, jobs=shown, result=None, next=tuple(follow[:1]) or (_BEGIN,)
    )


def _shown(found: Job) -> JobResult:
    result = None
    if found.status == "done" and isinstance(found.outcome, CallToolResult):
        result = found.outcome.structured_content
    return JobResult(
        summary=_said(found), job=found.state(), result=result, next=_next(found, result)
    )


def _said(found: Job) -> str:
    tool, after = found.asked.tool, f"after {found.elapsed_s:.0f} s"
    if found.running:
        return f"{tool} is still at work: {how_far(found)}"
    if found.status == "failed":
        return f"{tool} failed {after}; job.error says why"
    if found.status == "cancelled":
        return f"{tool} was cancelled {after}; nothing of it is left"
    return f"{tool} is done {after}; result is what it returned"


def _next(found: Job, result: dict[str, Any] | None) -> tuple[str, ...]:
    if found.running:
        return (wait_for(found),)
    if found.status != "done":
        return (str(found.asked),)
    follow = tuple((result or {}).get("next", ()))
    return follow if sum(map(len, follow)) <= _LONGEST_NEXT else ("do what result.next says",)
