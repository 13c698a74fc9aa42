"""Wait for a job, and tell the client what it waits for."""

from __future__ import annotations

import math

import anyio
from mcp.server.mcpserver import Context

from kernelkb_mcp.jobs import Job

MIN_MESSAGE_GAP_S = 0.5
"""At least so long between two messages."""
MAX_SILENCE_S = 5.0
"""At most so long: clients give up on a call that is silent."""


async def wait_with_progress(ctx: Context, job: Job, seconds: float) -> None:
    """Wait for the end of a job, at most so long; say at once, and then when something changes."""
    with anyio.move_on_after(seconds):
        while job.is_running:
            said = job.activity
            await _send_progress(ctx, job)
            with anyio.move_on_after(MIN_MESSAGE_GAP_S):
                await job.wait_until_done()
            with anyio.move_on_after(MAX_SILENCE_S - MIN_MESSAGE_GAP_S):
                await job.wait_for_change(said)


def describe_progress(job: Job) -> str:
    """Say what a job does and for how long: ``bench naive, 12 s of about 30 s``."""
    of = "" if job.expected_s is None else f" of about {math.ceil(job.expected_s)} s"
    return f"{job.activity}, {job.elapsed_s:.0f} s{of}"


async def _send_progress(ctx: Context, job: Job) -> None:
    try:
        session = ctx.request_context.session
    except ValueError:  # called without a client
        return
    elapsed, total = job.elapsed_s, job.expected_s
    if total is not None and total < elapsed:
        total = None  # nobody knows any more
    await session.report_progress(elapsed, total, describe_progress(job))
