"""Calls as an assistant makes them."""


async def call_and_wait(client, name, arguments):
    """Call a tool and wait for its job, if it became one; return what it returns in the end."""
    found = (await client.call_tool(name, arguments)).structured_content
    job = found.get("job")
    while job is not None and job["status"] == "running":
        waited = await client.call_tool("job", {"id": job["id"], "action": "wait"})
        job, found = waited.structured_content["job"], waited.structured_content["result"]
    return found
