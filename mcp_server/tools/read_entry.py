"""read_entry: one entry of the knowledge, or the list of a kind."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb.errors import UnknownNameError
from kernelkb_mcp.paginate import LIMIT, Portion, portion
from kernelkb_mcp.results import EntryResult
from kernelkb_mcp.tool_adapter import compact, in_thread

TITLE = "Read an entry of the knowledge"
HINTS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_SPARE = 800
"""Bytes for all but the entry."""


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
    found = await in_thread(lambda: _found(id))
    part = portion(found, int(cursor or 0), LIMIT - _SPARE)
    if cursor and not part.value:
        raise ToolError(f"cursor {cursor!r} is beyond the end; read_entry(id={id!r}) begins again")
    listed = isinstance(found, list)
    go_on = (f"read_entry(id={id!r}, cursor={part.cursor!r})",) if part.cursor else ()
    return compact(
        EntryResult(
            summary=_said(id, found, part),
            entries=part.value if listed else None,
            entry=None if listed else part.value,
            cursor=part.cursor,
            next=(*go_on, *_follow(found, part)),
        )
    )


def _found(name: str) -> list[dict[str, Any]] | dict[str, Any]:
    from kernelkb.actions.knowledge import show

    try:
        return show(name)
    except UnknownNameError as error:
        from kernelkb.actions.search import find

        hits = [] if error.near else find(name, most=1)
        near = "".join(f" (did you mean {hit.id!r}?)" for hit in hits)
        said = f"{error.said}{near}; search_knowledge(query={name!r}) looks for its words"
        raise ToolError(said) from error


def _said(name: str, found: list[Any] | dict[str, Any], part: Portion) -> str:
    rest = "; there is more" if part.cursor else ""
    if isinstance(found, list):
        return f"{len(part.value)} of {len(found)} {name}{rest}"
    words = [found[field] for field in ("title", "do", "check") if field in found]
    title = f": {words[0]}"[:120] if words else ""
    return f"{name}{title}{rest}"


def _follow(found: list[Any] | dict[str, Any], part: Portion) -> tuple[str, ...]:
    """Return the calls that an entry leads to."""
    if isinstance(found, list):
        return (f"read_entry(id={part.value[0]['id']!r})",) if part.value else ()
    if "fixes" in found and "when" in found:
        return (f"read_entry(id={found['fixes'][0]!r})", "recommend_fix(metrics={...})")
    if found.get("bottlenecks"):
        return (f"read_entry(id={found['bottlenecks'][0]!r})",)
    return ("recommend_fix(metrics={...})",)
