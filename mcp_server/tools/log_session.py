"""log_session: append a retrospective."""

from __future__ import annotations

from typing import Annotated

from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb_mcp.results import LoggedSession
from kernelkb_mcp.tool_adapter import result_from_record, run_in_thread

TITLE = "Log what a session taught"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
Sentences = Annotated[list[str] | None, Field(description="One sentence each.")]


async def log_session(
    goal: Annotated[str, Field(description="What the session was for, in one sentence.")],
    kernel: Annotated[str | None, Field(description="Kernel name.")] = None,
    session: Annotated[
        str | None,
        Field(description="Session id. Default: the open one, else today's with that kernel."),
    ] = None,
    went_wrong: Sentences = None,
    went_right: Sentences = None,
    pattern_candidates: Sentences = None,
    cost_usd: Annotated[float | None, Field(ge=0, description="At least 0.")] = None,
) -> Annotated[CallToolResult, LoggedSession]:
    """Append a retrospective to the project's sessions: what went wrong, what went well.

    Pattern candidates stay candidates until a person accepts them.
    """
    from kernelkb.actions.sessions import explain_unused_session
    from kernelkb.actions.sessions import log_retrospective as log

    what = {
        "goal": goal,
        "kernel": kernel,
        "session": session,
        "went_wrong": went_wrong,
        "went_right": went_right,
        "pattern_candidates": pattern_candidates,
        "cost_usd": cost_usd,
    }
    reason = None if session else await run_in_thread(explain_unused_session)
    entry, path = await run_in_thread(lambda: log(what))
    return result_from_record(
        LoggedSession(
            summary=f"appended to session {entry.session}" + (f", {reason}" if reason else ""),
            session=entry.session,
            file=str(path),
            next=("bench_kernel(kernel=...)",),
        )
    )
