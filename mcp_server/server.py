"""Build the MCP server and serve it over stdio."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

from engine import __version__
from mcp_server.completion import complete_on
from mcp_server.edge import KernelServer, strict_tool
from mcp_server.instructions import instructions
from mcp_server.launch import Launch
from mcp_server.prompts import add_prompts
from mcp_server.resources import CACHE_HINTS
from mcp_server.tools import (
    bench_kernel,
    build_kernel,
    check_environment,
    log_session,
    profile_kernel,
    read_entry,
    recommend_fix,
    search_knowledge,
)

_MODULES: tuple[Any, ...] = (
    search_knowledge,
    read_entry,
    recommend_fix,
    check_environment,
    build_kernel,
    bench_kernel,
    profile_kernel,
    log_session,
)
"""Each holds a function of its own name, a TITLE and HINTS."""

_LOOKS = read_entry.HINTS
"""Of every tool where the open session is not written to."""


def build_server(launch: Launch | None = None) -> KernelServer:
    """Return the server with the tools that it is launched with, in a fixed order."""
    chosen = launch or Launch()
    modules = {module.__name__.rpartition(".")[2]: module for module in _MODULES}
    server = KernelServer(
        chosen,
        cache_hints=CACHE_HINTS,
        title="KernelKB",
        version=__version__,
        instructions=instructions(chosen.tools),
        log_level="WARNING",
        tools=[
            strict_tool(
                getattr(modules[name], name),
                modules[name].TITLE,
                _LOOKS if chosen.read_only else modules[name].HINTS,
            )
            for name in chosen.tools
            if name in modules
        ],
    )
    add_prompts(server)
    complete_on(server)
    return server


def main() -> None:
    """Serve over stdio until the client closes it; leave no child process behind."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        build_server().run("stdio")
    finally:
        _end_children()


def _end(number: int, _frame: FrameType | None) -> None:
    """End at once: the event loop may be waiting for input that never comes."""
    _end_children()
    os._exit(128 + number)


def _end_children() -> None:
    from engine.measure.isolation import end_all
    from engine.measure.jobs import drop_scratch

    end_all()
    drop_scratch()
