"""The knowledge as MCP resources: lists, templates, pages, completion; loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import anyio
from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    Completion,
    CompletionArgument,
    CompletionContext,
    ListResourcesResult,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
)

from kernelkb.errors import KbError, UnknownNameError
from kernelkb.safety.untrusted_text import remove_hidden

T = TypeVar("T")

SCHEME = "kb://"
MARKDOWN = "text/markdown"
_PAGE_SIZE = 160
"""Resources per answer. The first holds all before the fixes: some clients read only that."""

KINDS = {
    "trees": "Tree of questions, with its picture",
    "patterns": "Way of working: problem, practice, steps",
    "bottlenecks": "Cause of slowness: condition, look-alikes, fixes, cases",
    "devices": "GPU: peaks and limits",
    "fixes": "One change: before, after, cost, risk",
}
CACHE_HINTS = {
    "tools/list": CacheHint(ttl_ms=3_600_000, scope="public"),
    "prompts/list": CacheHint(ttl_ms=3_600_000, scope="public"),
    "resources/templates/list": CacheHint(ttl_ms=3_600_000, scope="public"),
    # A project's own knowledge is part of these.
    "resources/list": CacheHint(ttl_ms=60_000, scope="private"),
    "resources/read": CacheHint(ttl_ms=60_000, scope="private"),
}


class ResourceServer(MCPServer):
    """An MCP server whose resources are the pages of ``kernelkb.actions.sessions.pages``."""

    async def list_resources(self) -> list[Resource]:
        """Return all resources, always in the same order."""
        return await _run_beside_loop(_build_resources)

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Return a template for each kind."""
        return [
            ResourceTemplate(
                uri_template=f"{SCHEME}{kind}/{{id}}",
                name=kind,
                title=title,
                description=f"{title}; {SCHEME}index names the ids.",
                mime_type=MARKDOWN,
            )
            for kind, title in KINDS.items()
        ]

    async def read_resource(
        self,
        uri: Any,
        context: Any = None,  # noqa: ARG002 - the SDK's
    ) -> Iterable[ReadResourceContents]:
        """Return one page.

        Raises:
            ResourceNotFoundError: No page has this URI.
            ResourceError: The project's own knowledge has errors.
        """
        if str(uri).startswith("ui://"):
            return [await _run_beside_loop(lambda: _read_app(str(uri)))]
        text = await _run_beside_loop(lambda: _read_page(str(uri)))
        return [ReadResourceContents(content=remove_hidden(text), mime_type=MARKDOWN)]

    async def _handle_list_resources(
        self,
        ctx: Any,  # noqa: ARG002 - the SDK's
        params: PaginatedRequestParams | None,
    ) -> ListResourcesResult:
        cursor = params.cursor if params else None
        resources = await self.list_resources()
        if cursor is not None and not (cursor.isascii() and cursor.isdigit()):
            message = f"no cursor {cursor[:40]!r}; list the resources from the beginning"
            raise MCPError(code=INVALID_PARAMS, message=message)
        begin = int(cursor or 0)
        fixes = (n for n, r in enumerate(resources) if str(r.uri).startswith(f"{SCHEME}fixes/"))
        end = begin + _PAGE_SIZE if begin else next(fixes, _PAGE_SIZE)
        more = str(end) if end < len(resources) else None
        return ListResourcesResult(resources=resources[begin:end], next_cursor=more)

    async def _handle_read_resource(
        self, ctx: Any, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        read = await super()._handle_read_resource(ctx, params)
        if not isinstance(read, ReadResourceResult):
            raise TypeError("a page never asks for input")
        is_cacheable = str(params.uri) != f"{SCHEME}sessions"
        return read if is_cacheable else read.model_copy(update={"ttl_ms": 0})


def list_ids(kind: str) -> list[str]:
    """Return the ids of a kind, in listing order."""
    from kernelkb.actions.sessions.pages import list_pages

    return [one.id for one in list_pages() if one.kind == kind]


def _build_resources() -> list[Resource]:
    from kernelkb.actions.sessions.pages import SINGLE_PAGES, list_pages

    singles = [
        Resource(uri=f"{SCHEME}{name}", name=name, title=title, mime_type=MARKDOWN)
        for name, title in SINGLE_PAGES.items()
    ]
    return singles + [
        Resource(
            uri=f"{SCHEME}{one.kind}/{one.id}",
            name=one.id,
            title=one.title,
            mime_type=MARKDOWN,
        )
        for one in list_pages()
    ]


def _read_app(uri: str) -> ReadResourceContents:
    from kernelkb_mcp.calls.apps import MIME_TYPE, read_document

    text = read_document(uri)
    if text is None:
        raise ResourceNotFoundError(f"unknown resource {uri[:200]!r}; {SCHEME}index names all")
    return ReadResourceContents(content=text, mime_type=MIME_TYPE)


def _read_page(uri: str) -> str:
    from kernelkb.actions.sessions.pages import generate_entry_page, generate_single_page

    kind, _, name = uri.removeprefix(SCHEME).partition("/")
    try:
        if not uri.startswith(SCHEME):
            raise UnknownNameError("resource", uri, (), "show", kind=None)
        return generate_entry_page(kind, name) if name else generate_single_page(kind)
    except UnknownNameError as error:
        message = f"unknown resource {uri[:200]!r}{error.suggestion}; {SCHEME}index names all"
        raise ResourceNotFoundError(message) from error


async def _run_beside_loop(work: Callable[[], T]) -> T:
    """Run work in a thread: the first load of the knowledge takes half a second."""
    try:
        return await anyio.to_thread.run_sync(work)
    except KbError as error:
        raise ResourceError(str(error)) from error
    except OSError as error:
        from kernelkb.safety.storage import find_storage_gap

        gap = find_storage_gap(error)
        if gap is None:
            raise
        raise ResourceError(str(gap)) from error


_MAX_VALUES = 100
"""Maximum values of one answer, by the protocol."""


def add_completion(server: MCPServer) -> None:
    """Register argument completion."""
    server.completion()(_complete)  # type: ignore[no-untyped-call]  # the SDK gives it no types


async def _complete(
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    _context: CompletionContext | None,
) -> Completion:
    values = await anyio.to_thread.run_sync(lambda: _list_possible_values(ref, argument.name))
    word = argument.value.lower()
    begin = [name for name in values if name.startswith(word)]
    hits = begin + [name for name in values if word in name and not name.startswith(word)]
    return Completion(values=hits[:_MAX_VALUES], total=len(hits), has_more=len(hits) > _MAX_VALUES)


def _list_possible_values(
    ref: PromptReference | ResourceTemplateReference, argument: str
) -> list[str]:
    """Return all values of an argument; an empty list for free text."""
    try:
        if isinstance(ref, ResourceTemplateReference):
            kinds = [kind for kind in KINDS if ref.uri == f"{SCHEME}{kind}/{{id}}"]
            return [name for kind in kinds for name in list_ids(kind)] if argument == "id" else []
        return _list_kernel_names() if argument == "kernel" else []
    except KbError:  # errors in a project's files are reported when it is read
        return []


def _list_kernel_names() -> list[str]:
    from kernelkb.actions.project.bench_target import get_project_path
    from kernelkb.loading.kernels import find_kernel_folders

    return sorted(find_kernel_folders(get_project_path()))
