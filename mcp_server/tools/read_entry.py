"""read_entry: one knowledge entry, the list of a kind, or the attempts at a kernel."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb.errors import UnknownNameError
from kernelkb_mcp.attempts_view import load_attempts_view, names_attempts
from kernelkb_mcp.paginate import MAX_ANSWER_BYTES, ResultPage, paginate
from kernelkb_mcp.results import EntryResult
from kernelkb_mcp.tool_adapter import get_server_config, result_from_record, run_in_thread

TITLE = "Read an entry of the knowledge"
HINTS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_RESERVED_BYTES = 800
"""Bytes reserved for everything but the entry."""


async def read_entry(
    ctx: Context,
    id: Annotated[  # noqa: A002 - what a client sees
        str,
        Field(
            max_length=80,
            description="Id of an entry or kernel; attempts/KERNEL, or attempts/A..B for their "
            "difference; or bottlenecks, fixes, patterns, symptoms, trees, metrics, thresholds, "
            "devices, workflow, kernels for a list.",
        ),
    ],
    cursor: Annotated[
        str | None,
        Field(pattern=r"^\d{1,6}$", description="From the last answer. Default: begin."),
    ] = None,
) -> Annotated[CallToolResult, EntryResult]:
    """Read one entry whole, list a kind, or see what was tried on a kernel and what it gave."""
    view = None
    if names_attempts(id):
        tools = get_server_config(ctx).tool_names
        view = await run_in_thread(lambda: load_attempts_view(id, tools))
    content = view.content if view else await run_in_thread(lambda: _load_entry(id))
    part = paginate(content, int(cursor or 0), MAX_ANSWER_BYTES - _RESERVED_BYTES)
    if cursor and not part.value:
        raise ToolError(f"cursor {cursor!r} is beyond the end; read_entry(id={id!r}) begins again")
    is_list = isinstance(content, list)
    go_on = (f"read_entry(id={id!r}, cursor={part.cursor!r})",) if part.cursor else ()
    return result_from_record(
        EntryResult(
            summary=view.summary + _describe_rest(part)
            if view
            else _summarize_page(id, content, part),
            entries=part.value if is_list else None,
            entry=None if is_list else part.value,
            cursor=part.cursor,
            next=(*go_on, *(view.next if view else _list_next_calls(content, part))),
        )
    )


def _load_entry(name: str) -> list[dict[str, Any]] | dict[str, Any]:
    from kernelkb.actions.knowledge import look_up_entries

    try:
        return look_up_entries(name)
    except UnknownNameError as error:
        from kernelkb.actions.search import find_entries

        hits = [] if error.suggestion else find_entries(name, limit=1)
        near = "".join(f" (did you mean {hit.id!r}?)" for hit in hits)
        message = (
            f"{error.complaint}{near}; search_knowledge(query={name!r}) searches for its words"
        )
        raise ToolError(message) from error


def _summarize_page(name: str, content: list[Any] | dict[str, Any], part: ResultPage) -> str:
    rest = _describe_rest(part)
    if isinstance(content, list):
        return f"{len(part.value)} of {len(content)} {name}{rest}"
    words = [content[field] for field in ("title", "do", "check") if field in content]
    title = f": {words[0]}"[:120] if words else ""
    return f"{name}{title}{rest}"


def _describe_rest(part: ResultPage) -> str:
    return "; there is more" if part.cursor else ""


def _list_next_calls(content: list[Any] | dict[str, Any], part: ResultPage) -> tuple[str, ...]:
    """Return the next calls for an entry."""
    if isinstance(content, list):
        return (f"read_entry(id={part.value[0]['id']!r})",) if part.value else ()
    if "fixes" in content and "when" in content:
        return (f"read_entry(id={content['fixes'][0]!r})", "recommend_fix(metrics={...})")
    if content.get("bottlenecks"):
        return (f"read_entry(id={content['bottlenecks'][0]!r})",)
    return ("recommend_fix(metrics={...})",)
