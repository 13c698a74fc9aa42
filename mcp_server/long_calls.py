"""Answer a call whose work may take long: plainly where it ends soon, else with a handle."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar, cast

import anyio
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult

from kernelkb_mcp.call_durations import expected_seconds, record_duration
from kernelkb_mcp.jobs import Job, JobRegistry, ToolCall, current_job
from kernelkb_mcp.progress import describe_progress, wait_with_progress
from kernelkb_mcp.results import LongResult
from kernelkb_mcp.tool_adapter import KernelServer, result_from_record, run_in_thread
from kernelkb_mcp.truncate import truncate_result

R = TypeVar("R", bound=LongResult)


async def run_long_call(
    ctx: Context, result_type: type[R], call: ToolCall, work: Callable[[], R]
) -> CallToolResult:
    """Do work beside the event loop and return what it gave, or its handle where it takes long.

    A call that is cancelled before it has an answer takes the work with it; work whose handle is
    out goes on until it ends, somebody cancels it, or the server ends.

    Args:
        ctx: Of the call.
        result_type: What the tool returns; with a handle all that it requires beside the handle is
            null.
        call: The call, as it can be made again.
        work: Makes the result; called in a thread, where it may ``tell`` what it does.

    Raises:
        ToolError: The engine refused, or too many jobs are at work.
    """

    async def run(job: Job) -> CallToolResult:
        made = await _run_work(job, call, work)
        return result_from_record(truncate_result(made, call.shell_command))

    task = current_job()
    if task is not None:  # its client polls for the end
        return await run(task)
    jobs = get_jobs(ctx)
    job = jobs.start(call, run)
    try:
        await wait_with_progress(ctx, job, jobs.inline_s)
    except BaseException:  # cancelled, or there is nobody left to tell: the handle is lost
        await _cancel_and_wait(job)
        raise
    finally:
        if not job.is_running:
            jobs.forget(job)
    if job.is_running:
        jobs.detach(job)
        return result_from_record(_build_pending_result(result_type, job))
    return cast("CallToolResult", job.result())  # no tool of ours asks for input


def get_jobs(ctx: Context) -> JobRegistry:
    """Return the jobs of the server that a call is for."""
    return cast("KernelServer", ctx.mcp_server).jobs


def format_wait_call(job: Job) -> str:
    """Return the call that waits for a job."""
    return f"job(id={job.id!r}, action='wait')"


async def _cancel_and_wait(job: Job) -> None:
    job.cancel()
    with anyio.CancelScope(shield=True):
        await job.wait_until_done()


async def _run_work(job: Job, call: ToolCall, work: Callable[[], R]) -> R:
    def timed_work() -> R:
        from kernelkb.actions.bench_target import get_project_path
        from kernelkb.measure.process.progress import progress_listener

        key = f"{get_project_path()} {call}"
        job.expected_s = expected_seconds(key)
        began = time.monotonic()
        with progress_listener(job.report_activity):
            made = work()
        record_duration(key, time.monotonic() - began)
        return made

    return await run_in_thread(timed_work)


def _build_pending_result(result_type: type[R], job: Job) -> R:
    """Return a result whose work goes on."""
    absent = {name: None for name, field in result_type.model_fields.items() if field.is_required()}
    said = f"{job.call.tool} goes on as a job: {describe_progress(job)}"
    known = {"summary": said, "job": job.state(), "next": (format_wait_call(job),)}
    return result_type.model_validate({**absent, **known})
