"""start_session: open a session, or come back to the open one."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb_mcp.results import StartedSession
from kernelkb_mcp.tool_adapter import format_next_call, result_from_record, run_in_thread

TITLE = "Begin or resume"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


async def start_session(
    kernel: Annotated[str | None, Field(description="Default: the session's.")] = None,
    goal: Annotated[str | None, Field(description="Opens a session if none is open.")] = None,
) -> Annotated[CallToolResult, StartedSession]:
    """Say where work stands: the best state, what was tried in vain, the next call.

    Call it first, and again after losing your context.
    """
    from kernelkb.actions.session_brief import resume_session

    resume = partial(resume_session, kernel, goal, format_step=format_next_call)
    found = await run_in_thread(resume)
    return result_from_record(
        StartedSession(
            summary=found.summary, session=found.session, brief=found.brief, next=found.calls
        )
    )
