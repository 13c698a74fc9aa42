"""MCP prompts, rendered from the knowledge: start a session, diagnose a kernel, close."""

from __future__ import annotations

from typing import Annotated

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from pydantic import Field

from kernelkb.safety.untrusted_text import remove_hidden
from kernelkb_mcp.views.next_call import format_next_call

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
    """The loop, its phases with budgets and gates, when to stop, and where the kernel stands."""
    page = await _render_page("session-start", kernel or None)
    brief = await anyio.to_thread.run_sync(lambda: _find_brief(kernel or None))
    return f"{page}\n## Where it stands\n\n{remove_hidden(brief)}\n" if brief else page


def _find_brief(kernel: str | None) -> str:
    """Return where the open session or a kernel stands; empty where nothing was done yet."""
    from kernelkb.actions.project.bench_target import get_project_path
    from kernelkb.actions.sessions.session_brief import brief_session
    from kernelkb.errors import KbError
    from kernelkb.record.sessions import may_have_open_session

    project = get_project_path()
    has_history = kernel is not None and (project / ".kb" / "measurements.db").exists()
    if not has_history and not may_have_open_session(project):
        return ""
    try:
        return brief_session(None, kernel, format_next_call)
    except (KbError, OSError) as error:  # the rest of the page does not depend on it
        return str(error)


async def diagnose_kernel(kernel: Kernel = None, metrics: Metrics = None) -> str:
    """How to get from a slow kernel, and perhaps a few numbers, to the one change to make."""
    return await _render_page("diagnose", kernel or None, metrics or None)


async def close_session() -> str:
    """What must hold before a session ends, and what to record for the next one."""
    return await _render_page("close")


async def _render_page(name: str, kernel: str | None = None, metrics: str | None = None) -> str:
    from kernelkb.actions.knowledge.documents import generate_guide_page

    return await anyio.to_thread.run_sync(lambda: generate_guide_page(name, "mcp", kernel, metrics))
