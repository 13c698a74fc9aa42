"""The tasks extension, through a client that declares it and through clients that do not."""

import asyncio

import anyio
import pytest
import task_client
from broken import make
from mcp import Client, MCPError
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import InputRequiredResult
from processes import alive
from stalling import at_work, let_go
from task_client import cancel, ended, get, started, until, update

from kernelkb_mcp.jobs import Jobs
from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import Launch
from kernelkb_mcp.tasks import Tasks, ask
from kernelkb_mcp.tool_adapter import KernelServer

BROKEN = {"kernel": "broken", "target": "cpu"}
QUESTION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
SUPPORT = {
    "slow": "required",
    "refuses": "required",
    "breaks": "required",
    "asks": "required",
    "asks_twice": "required",
    "asks_first": "required",
    "quick": "optional",
}


async def slow() -> str:
    await anyio.sleep(600)
    return "never"


async def refuses() -> str:
    raise ToolError("no such thing")


async def breaks() -> str:
    raise MCPError(-32603, "out of order")


async def asks() -> str:
    return str(await ask(QUESTION))


async def asks_twice() -> str:
    return str(await asyncio.gather(ask(QUESTION), ask(QUESTION)))


async def asks_first(ctx: Context) -> str | InputRequiredResult:
    if not ctx.input_responses:
        return InputRequiredResult(input_requests={"who": QUESTION})
    return "thanks"


async def quick() -> str:
    return "done"


def made_up():
    jobs = Jobs()
    server = KernelServer(Launch(), jobs=jobs, extensions=[Tasks(SUPPORT, jobs)])
    for tool in (slow, refuses, breaks, asks, asks_twice, asks_first, quick):
        server.tool()(tool)
    return server


def talk(work, server=None, extensions=None, **how):
    given = [task_client.Tasks()] if extensions is None else extensions

    async def run():
        async with Client(server or made_up(), extensions=given, **how) as client:
            return await work(client)

    return anyio.run(run)


def test_a_long_build_is_a_task_that_ends_with_the_plain_result(project, stalled):
    async def work(client):
        task = await started(client, "build_kernel", BROKEN)
        at_first = await get(client, task)
        await at_work(stalled)
        let_go(stalled)
        return at_first, await ended(client, task)

    at_first, done = talk(work, build_server())

    assert at_first.status == "working"
    assert at_first.result is None
    assert done.status == "completed"
    assert done.result["structuredContent"]["build"]["status"] == "built"


def test_a_task_is_a_job(project, stalled):
    async def work(client):
        task = await started(client, "build_kernel", BROKEN)
        return task, (await client.call_tool("job", {"id": task})).structured_content

    task, job = talk(work, build_server())

    assert job["job"]["id"] == task
    assert job["job"]["status"] == "running"


def test_a_cancelled_task_leaves_no_compiler(project, stalled):
    async def work(client):
        task = await started(client, "build_kernel", BROKEN)
        await at_work(stalled)
        await cancel(client, task)
        return await ended(client, task), alive(stalled)

    task, left = talk(work, build_server())

    assert task.status == "cancelled"
    assert left == []


def test_a_client_that_declares_nothing_gets_the_plain_result(project):
    make(project, "right")

    async def work(client):
        return await client.call_tool("build_kernel", BROKEN)

    found = talk(work, build_server(), extensions=[])

    assert found.structured_content["build"]["status"] == "built"


def test_what_ends_at_once_needs_no_task():
    async def work(client):
        return await client.call_tool("quick", {})

    assert talk(work).content[0].text == "done"


def test_a_tool_that_is_always_a_task_refuses_other_clients():
    async def work(client):
        with pytest.raises(MCPError) as refused:
            await client.call_tool("slow", {})
        return refused.value.error

    error = talk(work, extensions=[])

    assert error.code == -32021
    assert "io.modelcontextprotocol/tasks" in error.data["requiredCapabilities"]["extensions"]


@pytest.mark.parametrize("verb", [get, cancel])
def test_the_verbs_are_refused_to_who_did_not_declare_them(verb):
    async def work(client):
        with pytest.raises(MCPError) as refused:
            await verb(client, "slow-0")
        return refused.value.error.code

    assert talk(work, extensions=[]) == -32021


@pytest.mark.parametrize("verb", [get, cancel])
def test_an_unknown_task_is_an_invalid_parameter(verb):
    async def work(client):
        with pytest.raises(MCPError, match="call the tool again") as refused:
            await verb(client, "slow-0")
        return refused.value.error.code

    assert talk(work) == -32602


def test_the_older_protocol_has_no_such_verbs():
    async def work(client):
        with pytest.raises(MCPError) as refused:
            await get(client, "slow-0")
        return refused.value.error.code

    assert talk(work, mode="legacy") == -32601


def test_what_a_tool_refuses_is_completed_with_an_error():
    async def work(client):
        return await ended(client, await started(client, "refuses", {}))

    task = talk(work)

    assert task.status == "completed"
    assert task.result["isError"] is True
    assert "no such thing" in task.result["content"][0]["text"]


def test_an_error_of_the_protocol_is_a_failed_task():
    async def work(client):
        return await ended(client, await started(client, "breaks", {}))

    task = talk(work)

    assert task.status == "failed"
    assert task.error["code"] == -32603
    assert task.result is None


def test_a_task_asks_and_goes_on_with_the_answer():
    async def work(client):
        task = await started(client, "asks", {})
        asking = await until(client, task, "input_required")
        (key,) = asking.input_requests
        await update(client, task, {key: {"action": "accept", "content": {"name": "Ada"}}})
        return asking, await ended(client, task)

    asking, done = talk(work)

    assert list(asking.input_requests.values()) == [QUESTION]
    assert "Ada" in done.result["content"][0]["text"]


def test_a_task_waits_until_all_its_questions_are_answered():
    async def work(client):
        task = await started(client, "asks_twice", {})
        first, second = (await until(client, task, "input_required")).input_requests
        await update(client, task, {first: "one", "never asked": "nothing"})
        between = await get(client, task)
        await update(client, task, {second: "two"})
        return second, between, await ended(client, task)

    second, between, done = talk(work)

    assert between.status == "input_required"
    assert list(between.input_requests) == [second]
    assert "['one', 'two']" in done.result["content"][0]["text"]


def test_a_tool_may_ask_before_it_becomes_a_task():
    async def work(client):
        first = await client.session.call_tool("asks_first", {}, allow_input_required=True)
        answers = {"who": {"action": "accept", "content": {"name": "Ada"}}}
        task = await started(client, "asks_first", {}, input_responses=answers)
        return first, await ended(client, task)

    first, done = talk(work)

    assert isinstance(first, InputRequiredResult)
    assert done.result["content"][0]["text"] == "thanks"


def test_a_plain_call_cannot_be_asked():
    async def run():
        with pytest.raises(ToolError, match="only a client with"):
            await ask(QUESTION)

    anyio.run(run)
