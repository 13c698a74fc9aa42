"""job: list, await or cancel background jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb_mcp.calls.jobs import Job, JobRegistry
from kernelkb_mcp.calls.long_calls import (
    describe_progress,
    format_wait_call,
    get_jobs,
    wait_with_progress,
)
from kernelkb_mcp.calls.tool_adapter import result_from_record
from kernelkb_mcp.views.results import JobResult

TITLE = "Wait for or cancel a long job"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_MAX_LISTED = 8
_MAX_NEXT_CHARS = 600
_MAX_ERROR_CHARS = 300
_CANCEL_WAIT_S = 15.0
_LEFT_BY_TOOL = {"tune_kernel": "its trials are kept, and the same call goes on"}


async def job(
    ctx: Context,
    id: Annotated[  # noqa: A002 - the name that the handle has in every result
        str, Field(description="Handle. Without: list the jobs.", max_length=80)
    ] = "",
    action: Annotated[
        Literal["status", "wait", "cancel"], Field(description="Default status.")
    ] = "status",
    wait_s: Annotated[
        float,
        Field(ge=0, le=45, allow_inf_nan=False, description="0 to 45 s, default 45."),
    ] = 45,
) -> Annotated[CallToolResult, JobResult]:
    """List, await or cancel work that outlived its call and returned job.id.

    Its tool's result is kept for an hour.
    """
    jobs = get_jobs(ctx)
    if not id:
        if action != "status":
            raise ToolError(f"{action} needs an id; job() lists the jobs of this server")
        return result_from_record(_build_job_list(jobs))
    selected = jobs.find(id)
    if action == "cancel":
        selected.cancel()
        await wait_with_progress(ctx, selected, _CANCEL_WAIT_S)
    elif action == "wait":
        await wait_with_progress(ctx, selected, wait_s)
    return result_from_record(_build_job_result(selected))


def _build_job_list(jobs: JobRegistry) -> JobResult:
    listed = list(jobs)
    running = [job for job in listed if job.is_running]
    summary = f"{len(running)} running, {len(listed) - len(running)} ended"
    if len(listed) > _MAX_LISTED:
        summary += f"; the newest {_MAX_LISTED} of {len(listed)} are shown"
    follow = [format_wait_call(job) for job in running] or [f"job(id={job.id!r})" for job in listed]
    first = follow[0] if follow else _format_first_call()
    shown = tuple(job.state(_MAX_ERROR_CHARS) for job in listed[:_MAX_LISTED])
    return JobResult(
        summary=summary,
        job=None,
        jobs=shown,
        result=None,
        next=(first,),
    )


def _format_first_call() -> str:
    from kernelkb.actions.project.bench_target import get_project_path
    from kernelkb.actions.sessions.sessions import choose_subject_kernel

    return f"bench_kernel(kernel={choose_subject_kernel(get_project_path())!r})"


def _build_job_result(one_job: Job) -> JobResult:
    result = None
    if one_job.status == "done" and isinstance(one_job.outcome, CallToolResult):
        result = one_job.outcome.structured_content
    return JobResult(
        summary=_summarize_job(one_job),
        job=one_job.state(),
        result=result,
        next=_list_next_calls(one_job, result),
    )


def _summarize_job(one_job: Job) -> str:
    tool, after = one_job.call.tool, f"after {one_job.elapsed_s:.0f} s"
    if one_job.is_running:
        return f"{tool} is still running: {describe_progress(one_job)}"
    if one_job.status == "failed":
        return f"{tool} failed {after}; job.error says why"
    if one_job.status == "cancelled":
        left = _LEFT_BY_TOOL.get(tool, "nothing of it is left")
        return f"{tool} was cancelled {after}; {left}"
    return f"{tool} is done {after}; result is what it returned"


def _list_next_calls(one_job: Job, result: dict[str, Any] | None) -> tuple[str, ...]:
    if one_job.is_running:
        return (format_wait_call(one_job),)
    if one_job.status != "done":
        return (str(one_job.call),)
    follow = tuple((result or {}).get("next", ()))
    return follow if sum(map(len, follow)) <= _MAX_NEXT_CHARS else ("do what result.next says",)
