"""Views of ``kb web`` beside the text of an answer, for clients that show MCP Apps.

A host loads the document of ``ui://kernelkb/...`` once; each answer then brings its own view in
``_meta``, which a model does not read. Clients that declare no apps get neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension
from mcp.types import CallToolRequestParams, CallToolResult

from kernelkb.errors import KbError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.types import Tool

    from kernelkb.web.site import WebPage

EXTENSION_ID = "io.modelcontextprotocol/ui"
MIME_TYPE = "text/html;profile=mcp-app"
_SCHEME = "ui://kernelkb/"
VIEW = "kernelkb/view"
"""Key of a view in the ``_meta`` of a result."""
_MAX_VIEW_BYTES = 400_000


class ViewApps(Extension):
    """Adds to the results of some tools the view that a person would look at."""

    identifier = EXTENSION_ID

    async def intercept_tool_call(
        self,
        params: CallToolRequestParams,
        ctx: ServerRequestContext[Any, Any],
        call_next: CallNext,
    ) -> HandlerResult:
        """Call the tool, and add its view where the client can show it."""
        result = await call_next(ctx)
        if (
            params.name not in TOOL_VIEWS
            or not isinstance(result, CallToolResult)
            or result.is_error
            or not supports_apps(ctx)
        ):
            return result
        html = await anyio.to_thread.run_sync(draw_view, params.name, params.arguments or {})
        if html is None:
            return result
        return result.model_copy(update={"meta": {**(result.meta or {}), VIEW: html}})


def supports_apps(ctx: Any) -> bool:
    """Return whether a client said that it shows MCP Apps."""
    from mcp.server.apps import client_supports_apps

    return client_supports_apps(ctx)


def bind_view(tool: Tool) -> Tool:
    """Return a tool with the document that shows its results; one without is as it is."""
    if tool.name not in TOOL_VIEWS:
        return tool
    meta = {**(tool.meta or {}), "ui": {"resourceUri": f"{_SCHEME}{TOOL_VIEWS[tool.name][0]}"}}
    return tool.model_copy(update={"meta": meta})


def read_document(uri: str) -> str | None:
    """Return the document of a ``ui://`` address; None if there is none."""
    from kernelkb.render.html.pages import fill_template

    title = {f"{_SCHEME}{name}": title for name, title, _ in TOOL_VIEWS.values()}.get(uri)
    return None if title is None else fill_template("web/app.html", title=title)


def draw_view(tool: str, given: Mapping[str, Any]) -> str | None:
    """Return the view of a call as HTML; None where there is nothing to look at.

    Args:
        tool: Its name.
        given: Its arguments.
    """
    from kernelkb.web.site import Site

    with suppress(KbError, OSError):  # the text says what is wrong
        page = TOOL_VIEWS[tool][2](given)
        if page is not None:
            html = Site("", depth=0, is_bare=True).fill(page)
            return html if len(html.encode()) <= _MAX_VIEW_BYTES else None
    return None


def _draw_decision(given: Mapping[str, Any]) -> WebPage | None:
    from kernelkb.web.decision import show_decision

    if any(given.get(name) for name in ("profile", "run", "log", "what_if")):
        return None
    metrics = given.get("metrics")
    pairs = metrics.items() if isinstance(metrics, dict) else ()
    query = {"metrics": "\n".join(f"{name}={value}" for name, value in pairs)}
    for name in ("speedup", "bandwidth", "occupancy", "kernel_us", "gpu", "target"):
        if given.get(name) is not None:
            query[name.replace("_", "-")] = str(given[name])
    return show_decision(query)


def _draw_comparison(given: Mapping[str, Any]) -> WebPage | None:
    from kernelkb.web.history import show_difference

    first, dots, second = str(given.get("id", "")).partition("..")
    if not dots or "/" in first or "." in first:  # attempts, or reports
        return None
    return show_difference({"a": first, "b": second})


def _draw_checklist(_: Mapping[str, Any]) -> WebPage | None:
    from kernelkb.web.checklist import show_checklist

    return show_checklist({})


TOOL_VIEWS: dict[str, tuple[str, str, Callable[[Mapping[str, Any]], WebPage | None]]] = {
    "recommend_fix": ("decision", "Decision: gate, tree and causes", _draw_decision),
    "read_entry": ("comparison", "Two measurements", _draw_comparison),
    "session": ("checklist", "Checklist of the session", _draw_checklist),
}
"""The name, the title and the maker of the view of each tool that has one."""
