"""read_entry: one knowledge entry, or the list of a kind."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb.errors import UnknownNameError
from kernelkb_mcp.paginate import MAX_ANSWER_BYTES, ResultPage, paginate
from kernelkb_mcp.results import EntryResult
from kernelkb_mcp.tool_adapter import result_from_record, run_in_thread

TITLE = "Read an entry of the knowledge"
HINTS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_RESERVED_BYTES = 800
"""Bytes reserved for everything but the entry."""


async def read_entry(
    id: Annotated[  # noqa: A002 - what a client sees
        str,
        Field(
            max_length=60,
            description="Id of an entry or kernel; or bottlenecks, fixes, patterns, symptoms, "
            "trees, metrics, thresholds, devices, workflow, kernels for a list.",
        ),
    ],
    cursor: Annotated[
        str | None,
        Field(pattern=r"^\d{1,6}$", description="From the last answer, to go on. Default: begin."),
    ] = None,
) -> Annotated[CallToolResult, EntryResult]:
    """Read one entry whole (definition, condition, look-alikes, fixes, sources), or list a kind."""
    content = await run_in_thread(lambda: _load_entry(id))
    part = paginate(content, int(cursor or 0), MAX_ANSWER_BYTES - _RESERVED_BYTES)
    if cursor and not part.value:
        raise ToolError(f"cursor {cursor!r} is beyond the end; read_entry(id={id!r}) begins again")
    is_list = isinstance(content, list)
    go_on = (f"read_entry(id={id!r}, cursor={part.cursor!r})",) if part.cursor else ()
    return result_from_record(
        EntryResult(
            summary=_summarize_page(id, content, part),
            entries=part.value if is_list else None,
            entry=None if is_list else part.value,
            cursor=part.cursor,
            next=(*go_on, *_list_next_calls(content, part)),
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
    rest = "; there is more" if part.cursor else ""
    if isinstance(content, list):
        return f"{len(part.value)} of {len(content)} {name}{rest}"
    words = [content[field] for field in ("title", "do", "check") if field in content]
    title = f": {words[0]}"[:120] if words else ""
    return f"{name}{title}{rest}"


def _list_next_calls(content: list[Any] | dict[str, Any], part: ResultPage) -> tuple[str, ...]:
    """Return the next calls for an entry."""
    if isinstance(content, list):
        return (f"read_entry(id={part.value[0]['id']!r})",) if part.value else ()
    if "fixes" in content and "when" in content:
        return (f"read_entry(id={content['fixes'][0]!r})", "recommend_fix(metrics={...})")
    if content.get("bottlenecks"):
        return (f"read_entry(id={content['bottlenecks'][0]!r})",)
    return ("recommend_fix(metrics={...})",)
