"""session: open a session or come back to it, log what it taught, close it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb_mcp.calls.tool_adapter import result_from_record, run_in_thread
from kernelkb_mcp.views.next_call import format_step
from kernelkb_mcp.views.results import SessionResult

TITLE = "Begin, resume, log or close a session"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
Sentences = Annotated[list[str] | None, Field(description="Sentences.")]


async def session(
    action: Annotated[
        Literal["start", "log", "close"], Field(description="Default start.")
    ] = "start",
    kernel: Annotated[str | None, Field(description="Default: the session's.")] = None,
    goal: Annotated[str | None, Field(description="For start and log.")] = None,
    id: Annotated[  # noqa: A002 - what a client sees
        str | None, Field(description="Default: the open one.")
    ] = None,
    went_wrong: Sentences = None,
    went_right: Sentences = None,
    pattern_candidates: Sentences = None,
    cost_usd: Annotated[float | None, Field(ge=0, description="At least 0.")] = None,
) -> Annotated[CallToolResult, SessionResult]:
    """Say where work stands: the best state, what was tried in vain, the next call.

    Call it first, and again after losing your context; log or close with what you learnt.
    """
    if goal is not None and not goal.strip():
        raise ToolError("goal is empty; write in one sentence what the work is for")
    lessons = {
        "went_wrong": went_wrong,
        "went_right": went_right,
        "pattern_candidates": pattern_candidates,
        "cost_usd": cost_usd,
    }
    given = {name: value for name, value in lessons.items() if value is not None}
    if action == "start":
        _refuse_ignored({"id": id, **given}, "start", "session(action='log') records it")
        return result_from_record(await run_in_thread(lambda: _resume(kernel, goal)))
    if action == "close":
        _refuse_ignored({"kernel": kernel, "goal": goal}, "close", "close takes id and lessons")
        return result_from_record(await run_in_thread(lambda: _close(id, given)))
    if goal is None:
        raise ToolError("log needs a goal: what the work was for, in one sentence")
    what = {"goal": goal, "kernel": kernel, "session": id, **given}
    return result_from_record(await run_in_thread(lambda: _log(what)))


def _refuse_ignored(values: dict[str, Any], action: str, cure: str) -> None:
    """Raise ToolError if an argument is given that the action does not use."""
    for name, value in values.items():
        if value is not None:
            raise ToolError(f"{action} does not use {name}; {cure}")


def _resume(kernel: str | None, goal: str | None) -> SessionResult:
    from kernelkb.actions.sessions.session_brief import resume_session

    found = resume_session(kernel, goal, format_step=format_step)
    return SessionResult(
        summary=found.summary,
        session=found.session,
        brief=found.brief,
        file=None,
        next=found.steps,
    )


def _log(what: dict[str, Any]) -> SessionResult:
    from kernelkb.actions.sessions.sessions import explain_unused_session, log_retrospective

    reason = None if what["session"] else explain_unused_session()
    entry, path = log_retrospective(what)
    return SessionResult(
        summary=f"appended to session {entry.session}" + (f", {reason}" if reason else ""),
        session=entry.session,
        brief=None,
        file=str(path),
        next=("session(action='close')",),
    )


def _close(name: str | None, lessons: dict[str, Any]) -> SessionResult:
    from kernelkb.actions.sessions.sessions import close_session

    entry, path = close_session(name, lessons)
    return SessionResult(
        summary=f"closed session {entry.session}",
        session=entry.session,
        brief=None,
        file=str(path),
        next=(),
        needs="a goal for the next session: session(goal=...) opens it",
    )
