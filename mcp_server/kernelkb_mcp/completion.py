"""Argument completion: ids in resource templates, kernel names in prompts."""

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
