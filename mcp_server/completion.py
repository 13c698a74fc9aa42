"""Complete ids in resource templates and kernel names in prompts."""

from __future__ import annotations

import anyio
from mcp.server import MCPServer
from mcp.types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)

from kernelkb.errors import KbError
from kernelkb_mcp.resources import KINDS, SCHEME, list_ids

_MAX_VALUES = 100
"""Values in one answer; the protocol allows no more."""


def add_completion(server: MCPServer) -> None:
    """Let a server complete arguments."""
    server.completion()(_complete)  # type: ignore[no-untyped-call]  # the SDK gives it no types


async def _complete(
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    _context: CompletionContext | None,
) -> Completion:
    known = await anyio.to_thread.run_sync(lambda: _list_possible_values(ref, argument.name))
    word = argument.value.lower()
    begin = [name for name in known if name.startswith(word)]
    found = begin + [name for name in known if word in name and not name.startswith(word)]
    return Completion(
        values=found[:_MAX_VALUES], total=len(found), has_more=len(found) > _MAX_VALUES
    )


def _list_possible_values(
    ref: PromptReference | ResourceTemplateReference, argument: str
) -> list[str]:
    """Return every value that an argument may have; none for an argument of free text."""
    try:
        if isinstance(ref, ResourceTemplateReference):
            kinds = [kind for kind in KINDS if ref.uri == f"{SCHEME}{kind}/{{id}}"]
            return [name for kind in kinds for name in list_ids(kind)] if argument == "id" else []
        return _list_kernel_names() if argument == "kernel" else []
    except KbError:  # a mistake in a project's file is told where somebody reads it
        return []


def _list_kernel_names() -> list[str]:
    from kernelkb.actions.bench_target import get_project_path
    from kernelkb.loading.kernels import find_kernel_folders

    return sorted(find_kernel_folders(get_project_path()))
