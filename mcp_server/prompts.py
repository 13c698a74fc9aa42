"""MCP prompts, rendered from the knowledge: start a session, diagnose a kernel, close."""

from __future__ import annotations

from typing import Annotated

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from pydantic import Field

Kernel = Annotated[
    str | None, Field(description="Kernel folder below kernels/, such as row_softmax.")
]
Metrics = Annotated[
    str | None, Field(description="Measurements in free text: speedup 0.3, occupancy 40%.")
]


def add_prompts(server: MCPServer) -> None:
    """Register the prompts."""
    for function, title in (
        (session_start, "Begin a session"),
        (diagnose_kernel, "Find what limits a kernel"),
        (close_session, "End a session"),
    ):
        server.add_prompt(Prompt.from_function(function, title=title))


async def session_start(kernel: Kernel = None) -> str:
    """The loop, what to check before it, its phases with budgets and gates, and when to stop."""
    return await _render_page("session-start", kernel or None)


async def diagnose_kernel(kernel: Kernel = None, metrics: Metrics = None) -> str:
    """How to get from a slow kernel, and perhaps a few numbers, to the one change to make."""
    return await _render_page("diagnose", kernel or None, metrics or None)


async def close_session() -> str:
    """What must hold before a session ends, and what to record for the next one."""
    return await _render_page("close")


async def _render_page(name: str, kernel: str | None = None, metrics: str | None = None) -> str:
    from kernelkb.actions.guide import generate_guide_page

    return await anyio.to_thread.run_sync(lambda: generate_guide_page(name, "mcp", kernel, metrics))
