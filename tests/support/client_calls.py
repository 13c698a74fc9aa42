"""Calls tools as an MCP client does: a call that becomes a job is waited for."""


async def call_and_wait(client, name, arguments):
    """Call a tool, wait for its job if it became one, and return the final structured result."""
    found = (await client.call_tool(name, arguments)).structured_content
    job = found.get("job")
    while job is not None and job["status"] == "running":
        waited = await client.call_tool("job", {"id": job["id"], "action": "wait"})
        job, found = waited.structured_content["job"], waited.structured_content["result"]
    return found
