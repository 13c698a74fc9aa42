"""read_entry: an entry, a list, this machine, the attempts at a kernel, or a comparison."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb.errors import UnknownNameError
from kernelkb_mcp.calls.tool_adapter import get_server_config, result_from_record, run_in_thread
from kernelkb_mcp.views.entries import (
    EntryView,
    load_attempts_view,
    load_comparison_view,
    load_environment_view,
    names_attempts,
    names_comparison,
    names_environment,
)
from kernelkb_mcp.views.paginate import MAX_ANSWER_BYTES, ResultPage, paginate
from kernelkb_mcp.views.results import EntryResult

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
            max_length=400,
            description="An entry or kernel; environment: this machine; attempts/KERNEL; A..B "
            "compares runs or reports, attempts/A..B attempts; or a list: bottlenecks, fixes, "
            "patterns, symptoms, trees, metrics, devices, workflow, kernels.",
        ),
    ],
    cursor: Annotated[
        str | None,
        Field(pattern=r"^\d{1,6}$", description="From the last answer."),
    ] = None,
) -> Annotated[CallToolResult, EntryResult]:
    """Read an entry whole, list a kind, inspect this machine, see what was tried, compare."""
    if not id.strip():
        raise ToolError("id is empty; read_entry(id='bottlenecks') lists a kind of entries")
    tools = get_server_config(ctx).tool_names
    view = await run_in_thread(lambda: _load_view(id, tools))
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
            next=(*go_on, *(view.next if view else _list_next_calls(content, part, tools))),
        )
    )


def _load_view(name: str, tools: Collection[str]) -> EntryView | None:
    """Return what was measured, if the id names that; None for an entry of the knowledge."""
    if names_attempts(name):
        return load_attempts_view(name, tools)
    if names_environment(name):
        return load_environment_view(name, tools)
    return load_comparison_view(name) if names_comparison(name) else None


def _load_entry(name: str) -> list[dict[str, Any]] | dict[str, Any]:
    from kernelkb.actions.knowledge.knowledge import look_up_entries

    try:
        return look_up_entries(name)
    except UnknownNameError as error:
        from kernelkb.actions.knowledge.search import find_entries

        hits = [] if error.suggestion else find_entries(name, limit=1)
        near = "".join(f" (did you mean {hit.id!r}?)" for hit in hits)
        said = f"{error.denial}{near}" if near else error.complaint
        message = f"{said}; search_knowledge(query={name!r}) searches for its words"
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


def _list_next_calls(
    content: list[Any] | dict[str, Any], part: ResultPage, tools: Collection[str]
) -> tuple[str, ...]:
    """Return the next calls for an entry: what it leads to, or where work begins."""
    if isinstance(content, list):
        return (f"read_entry(id={part.value[0]['id']!r})",) if part.value else ()
    for field in ("fixes", "bottlenecks"):
        if content.get(field):
            return (f"read_entry(id={content[field][0]!r})",)
    if "variants" in content and "bench_kernel" in tools:
        return (f"bench_kernel(kernel={content['id']!r})",)
    return ("session()",) if "session" in tools else ()
