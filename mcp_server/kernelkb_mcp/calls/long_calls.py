"""Answer long tool calls: with the result if ready soon, else a handle; and tell the progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar, cast

import anyio
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult

from kernelkb.measure.machine.cached_facts import expected_seconds, record_duration
from kernelkb.safety.untrusted_text import remove_hidden
from kernelkb_mcp.calls.jobs import Job, JobRegistry, ToolCall, current_job
from kernelkb_mcp.calls.tool_adapter import KernelServer, result_from_record, run_in_thread
from kernelkb_mcp.views.results import LongResult
from kernelkb_mcp.views.truncate import truncate_result

R = TypeVar("R", bound=LongResult)
T = TypeVar("T")


async def run_long_call(
    ctx: Context, result_type: type[R], call: ToolCall, work: Callable[[], R]
) -> CallToolResult:
    """Run work in a thread; return its result, or a job handle after ``inline_s`` seconds.

    Cancelling the call before it is answered cancels the work; a detached job goes on until it
    ends, is cancelled by its handle, or the server ends.

    Args:
        ctx: Context of the call.
        result_type: The tool's result type; with a handle, its other required fields are null.
        call: The call, so that it can be repeated.
        work: Makes the result; called in a thread, where it may report progress.

    Raises:
        ToolError: The engine raised one of its errors, or too many jobs are running.
    """

    async def run(job: Job) -> CallToolResult:
        result = await _run_work(job, call, work)
        return result_from_record(truncate_result(result, call.shell_command))

    task = current_job()
    if task is not None:  # a task of the tasks extension: its client polls
        return await run(task)
    jobs = get_jobs(ctx)
    job = jobs.start(call, run)
    try:
        await wait_with_progress(ctx, job, jobs.inline_s)
    except BaseException:  # cancelled or disconnected: no client would ever hold the handle
        await _cancel_and_wait(job)
        raise
    finally:
        if not job.is_running:
            jobs.forget(job)
    if job.is_running:
        jobs.detach(job)
        return result_from_record(_build_pending_result(result_type, job))
    return cast("CallToolResult", job.result())  # no tool of ours asks for input


async def run_to_the_end(ctx: Context, call: ToolCall, work: Callable[[], T]) -> T:
    """Run work in a thread, with progress messages until it ends; cancelling the call ends it.

    Raises:
        ToolError: The engine raised one of its errors, or too many jobs are running.
    """
    results: list[T] = []

    async def run(job: Job) -> CallToolResult:
        results.append(await _run_work(job, call, work))
        return CallToolResult(content=[])

    jobs = get_jobs(ctx)
    job = jobs.start(call, run)
    try:
        await wait_with_progress(ctx, job, math.inf)
    except BaseException:
        await _cancel_and_wait(job)
        raise
    finally:
        jobs.forget(job)
    job.result()
    return results[0]


def get_jobs(ctx: Context) -> JobRegistry:
    """Return the job registry of the call's server."""
    return cast("KernelServer", ctx.mcp_server).jobs


def format_wait_call(job: Job) -> str:
    """Return the call that waits for a job."""
    return f"job(id={job.id!r}, action='wait')"


async def _cancel_and_wait(job: Job) -> None:
    job.cancel()
    with anyio.CancelScope(shield=True):
        await job.wait_until_done()


async def _run_work(job: Job, call: ToolCall, work: Callable[[], T]) -> T:
    def timed_work() -> T:
        from kernelkb.actions.project.bench_target import get_project_path
        from kernelkb.progress import progress_listener
        from kernelkb.record.running import publish_progress

        key = f"{get_project_path()} {call}"
        job.expected_s = expected_seconds(key)
        start_s = time.monotonic()
        shown = f"{str(call)[:200]} over MCP"
        with publish_progress(get_project_path(), shown), progress_listener(job.report_activity):
            result = work()
        record_duration(key, time.monotonic() - start_s)
        return result

    return await run_in_thread(timed_work)


def _build_pending_result(result_type: type[R], job: Job) -> R:
    """Return a result that only holds the job handle."""
    absent = {name: None for name, field in result_type.model_fields.items() if field.is_required()}
    summary = f"{job.call.tool} continues as a job: {describe_progress(job)}"
    known = {"summary": summary, "job": job.state(), "next": (format_wait_call(job),)}
    return result_type.model_validate({**absent, **known})


MIN_MESSAGE_GAP_S = 0.5
"""Minimum time between two progress messages."""
MAX_SILENCE_S = 5.0
"""Maximum time between two: clients time out on a silent call."""


async def wait_with_progress(ctx: Context, job: Job, seconds: float) -> None:
    """Wait up to ``seconds`` for a job to end; report progress at once and at every change."""
    with anyio.move_on_after(seconds):
        while job.is_running:
            activity = job.activity
            await _send_progress(ctx, job)
            with anyio.move_on_after(MIN_MESSAGE_GAP_S):
                await job.wait_until_done()
            with anyio.move_on_after(MAX_SILENCE_S - MIN_MESSAGE_GAP_S):
                await job.wait_for_change(activity)


def describe_progress(job: Job) -> str:
    """Describe a job's activity and time: ``bench naive, 12 s of about 30 s``."""
    forecast = "" if job.expected_s is None else f" of about {math.ceil(job.expected_s)} s"
    return f"{remove_hidden(job.activity)}, {job.elapsed_s:.0f} s{forecast}"


async def _send_progress(ctx: Context, job: Job) -> None:
    try:
        session = ctx.request_context.session
    except ValueError:  # called without a client
        return
    elapsed, total = job.elapsed_s, job.expected_s
    if total is not None and total < elapsed:
        total = None  # the forecast was too short
    await session.report_progress(elapsed, total, describe_progress(job))
