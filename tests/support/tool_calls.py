"""Calls the server's tools in this process."""

import anyio
from mcp import Client

from kernelkb.safety import workspace
from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import ServerConfig


def run_client(config, work):
    """Return the result of ``work(client)``, with a client of a new server."""

    async def connect():
        async with Client(build_server(config)) as client:
            return await work(client)

    return anyio.run(connect)


def call_tool(name, config=None, **arguments):
    """Return the result of one call, which becomes a job only if a test's own config says so."""

    async def work(client):
        return await client.call_tool(name, arguments)

    return run_client(config or ServerConfig(inline_s=600.0), work)


def leave_workspace():
    """Remove the workspace bounds, which a starting server sets for the rest of the process."""
    workspace._bounds = None
