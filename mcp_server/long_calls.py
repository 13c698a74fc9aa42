"""Answer a call whose work may take long: plainly where it ends soon, else with a handle."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar, cast

import anyio
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult

from kernelkb_mcp.call_durations import expected, took
from kernelkb_mcp.jobs import Asked, Job, Jobs, current_job
from kernelkb_mcp.progress import how_far, watch
from kernelkb_mcp.results import LongResult
from kernelkb_mcp.tool_adapter import KernelServer, compact, in_thread
from kernelkb_mcp.truncate import fitted

R = TypeVar("R", bound=LongResult)


async def answered(
    ctx: Context, kind: type[R], asked: Asked, work: Callable[[], R]
) -> CallToolResult:
    """Do work beside the event loop and return what it gave, or its handle where it takes long.

    A call that is cancelled before it has an answer takes the work with it; work whose handle is
    out goes on until it ends, somebody cancels it, or the server ends.

    Args:
        ctx: Of the call.
        kind: What the tool returns; with a handle all that it requires beside the handle is null.
        asked: The call, as it can be made again.
        work: Makes the result; called in a thread, where it may ``tell`` what it does.

    Raises:
        ToolError: The engine refused, or too many jobs are at work.
    """

    async def run(job: Job) -> CallToolResult:
        return compact(fitted(await _done(job, asked, work), asked.command))

    task = current_job()
    if task is not None:  # its client polls for the end
        return await run(task)
    jobs = jobs_of(ctx)
    job = jobs.start(asked, run)
    try:
        await watch(ctx, job, jobs.inline_s)
    except BaseException:  # cancelled, or there is nobody left to tell: the handle is lost
        job.cancel()
        with anyio.CancelScope(shield=True):
            await job.end()
        raise
    finally:
        if not job.running:
            jobs.forget(job)
    if job.running:
        jobs.hand_out(job)
        return compact(_pending(kind, job))
    return cast("CallToolResult", job.result())  # no tool of ours asks for input


def jobs_of(ctx: Context) -> Jobs:
    """Return the jobs of the server that a call is for."""
    return cast("KernelServer", ctx.mcp_server).jobs


def wait_for(job: Job) -> str:
    """Return the call that waits for a job."""
    return f"job(id={job.id!r}, action='wait')"


async def _done(job: Job, asked: Asked, work: Callable[[], R]) -> R:
    def timed() -> R:
        from kernelkb.actions.bench_target import project
        from kernelkb.measure.process.progress import watched_by

        key = f"{project()} {asked}"
        job.expected_s = expected(key)
        began = time.monotonic()
        with watched_by(job.tell):
            made = work()
        took(key, time.monotonic() - began)
        return made

    return await in_thread(timed)


def _pending(kind: type[R], job: Job) -> R:
    """Return a result whose work goes on."""
    absent = {name: None for name, field in kind.model_fields.items() if field.is_required()}
    said = f"{job.asked.tool} goes on as a job: {how_far(job)}"
    known = {"summary": said, "job": job.state(), "next": (wait_for(job),)}
    return kind.model_validate({**absent, **known})
