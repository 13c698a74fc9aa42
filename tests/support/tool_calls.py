"""Calls of the server's tools, in process."""

import anyio
from mcp import Client

from kernelkb.safety import workspace
from kernelkb_mcp.server import build_server


def run_client(config, work):
    """Return what an async function makes of a client of a new server."""

    async def connect():
        async with Client(build_server(config)) as client:
            return await work(client)

    return anyio.run(connect)


def call_tool(name, config=None, **arguments):
    """Return the result of one call."""

    async def work(client):
        return await client.call_tool(name, arguments)

    return run_client(config, work)


def leave_workspace():
    """Lift the bounds of this process, which a server sets for good when it starts."""
    workspace._bounds = None
