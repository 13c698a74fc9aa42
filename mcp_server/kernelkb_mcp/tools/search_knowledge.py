"""search_knowledge: find knowledge entries by words."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb_mcp.calls.tool_adapter import result_from_record, run_in_thread
from kernelkb_mcp.views.next_call import format_call_for_command
from kernelkb_mcp.views.paginate import MAX_ANSWER_BYTES, paginate
from kernelkb_mcp.views.results import SearchResult

TITLE = "Search the knowledge"
HINTS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_RESERVED_BYTES = 1000
"""Bytes reserved for everything but the hits."""


async def search_knowledge(
    query: Annotated[str, Field(max_length=2000, description="Words, or an error message.")],
    kind: Annotated[
        str | None, Field(description="Such as fix or symptom. Default: all.", max_length=60)
    ] = None,
    limit: Annotated[int, Field(ge=1, le=20, description="1 to 20, default 10.")] = 10,
) -> Annotated[CallToolResult, SearchResult]:
    """Find causes, fixes, metrics, symptoms and patterns, best first."""
    from kernelkb.actions.knowledge.search import find_entries
    from kernelkb.graph.search import SEARCH_KINDS

    if kind is not None and kind not in SEARCH_KINDS:
        known = ", ".join(map(repr, SEARCH_KINDS))
        raise ToolError(f"no kind {kind!r}; it is one of {known}")
    hits = await run_in_thread(lambda: find_entries(query, kind=kind, limit=limit))
    rows = paginate([hit._asdict() for hit in hits], 0, MAX_ANSWER_BYTES - _RESERVED_BYTES).value
    if rows:
        summary = f"{len(rows)} entries, best first: {rows[0]['kind']} {rows[0]['id']}"
        follow = tuple(f"read_entry(id={row['id']!r})" for row in rows[:2] if not _is_command(row))
    else:
        summary = "no hits: use other or fewer words" + (", or no kind" if kind else "")
        follow = ("read_entry(id='bottlenecks')", "read_entry(id='patterns')")
    calls = [format_call_for_command(row["id"]) for row in rows[:2] if _is_command(row)]
    needs = f"the arguments of {' or '.join(calls)}" if calls else None
    return result_from_record(SearchResult(summary=summary, hits=rows, next=follow, needs=needs))


def _is_command(row: dict[str, Any]) -> bool:
    """Return whether a hit is a command of ``kb``, whose call has arguments of the caller."""
    return bool(row["kind"] == "command")
