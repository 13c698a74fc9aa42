"""Calls of the server's tools, in process."""

import anyio
from mcp import Client

from kernelkb_mcp.server import build_server


def over(launch, work):
    """Return what an async function makes of a client of a new server."""

    async def run():
        async with Client(build_server(launch)) as client:
            return await work(client)

    return anyio.run(run)


def call(name, launch=None, **arguments):
    """Return the result of one call."""

    async def work(client):
        return await client.call_tool(name, arguments)

    return over(launch, work)
