"""search_knowledge: find knowledge entries by words."""

from __future__ import annotations

from typing import Annotated, Literal

from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb_mcp.paginate import MAX_ANSWER_BYTES, paginate
from kernelkb_mcp.results import SearchResult
from kernelkb_mcp.tool_adapter import result_from_record, run_in_thread

TITLE = "Search the knowledge"
HINTS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_RESERVED_BYTES = 1000
"""Bytes reserved for everything but the hits."""

Kind = Literal[
    "bottleneck", "fix", "metric", "threshold", "guard", "pattern", "symptom", "tree", "workflow"
]


async def search_knowledge(
    query: Annotated[str, Field(max_length=200, description="Words; typos are fine.")],
    kind: Annotated[Kind | None, Field(description="Default: all kinds.")] = None,
    limit: Annotated[int, Field(ge=1, le=20, description="1 to 20, default 10.")] = 10,
) -> Annotated[CallToolResult, SearchResult]:
    """Find causes, fixes, metrics, symptoms and ways of working by words, best first."""
    from kernelkb.actions.search import find_entries

    hits = await run_in_thread(lambda: find_entries(query, kind=kind, limit=limit))
    rows = paginate([hit._asdict() for hit in hits], 0, MAX_ANSWER_BYTES - _RESERVED_BYTES).value
    if rows:
        summary = f"{len(rows)} entries, best first: {rows[0]['kind']} {rows[0]['id']}"
        follow = tuple(f"read_entry(id={row['id']!r})" for row in rows[:2])
    else:
        summary = "no hits: use other or fewer words" + (", or no kind" if kind else "")
        follow = ("read_entry(id='bottlenecks')", "read_entry(id='patterns')")
    return result_from_record(SearchResult(summary=summary, hits=rows, next=follow))
