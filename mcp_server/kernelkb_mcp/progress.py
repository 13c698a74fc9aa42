"""Wait for a job and send progress notifications to the client."""

from __future__ import annotations

import math

import anyio
from mcp.server.mcpserver import Context

from kernelkb_mcp.jobs import Job

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
    return f"{job.activity}, {job.elapsed_s:.0f} s{forecast}"


async def _send_progress(ctx: Context, job: Job) -> None:
    try:
        session = ctx.request_context.session
    except ValueError:  # called without a client
        return
    elapsed, total = job.elapsed_s, job.expected_s
    if total is not None and total < elapsed:
        total = None  # the forecast was too short
    await session.report_progress(elapsed, total, describe_progress(job))
