"""The tasks extension, through a client that declares it and through clients that do not."""

import asyncio

import anyio
import pytest
import task_client
from asking_tasks import AskingTasks, ask_client
from broken_kernels import make_broken_kernel
from mcp import Client, MCPError
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import InputRequiredResult
from processes import find_processes
from stalled_compiler import release_compiler, wait_for_process
from task_client import (
    cancel_task,
    get_task,
    start_task,
    update_task,
    wait_for_status,
    wait_until_ended,
)

from kernelkb_mcp.calls.jobs import JobRegistry
from kernelkb_mcp.calls.tool_adapter import KernelServer
from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import ServerConfig

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
    return str(await ask_client(QUESTION))


async def asks_twice() -> str:
    return str(await asyncio.gather(ask_client(QUESTION), ask_client(QUESTION)))


async def asks_first(ctx: Context) -> str | InputRequiredResult:
    if not ctx.input_responses:
        return InputRequiredResult(input_requests={"who": QUESTION})
    return "thanks"


async def quick() -> str:
    return "done"


def make_server():
    jobs = JobRegistry()
    server = KernelServer(ServerConfig(), jobs=jobs, extensions=[AskingTasks(SUPPORT, jobs)])
    for tool in (slow, refuses, breaks, asks, asks_twice, asks_first, quick):
        server.tool()(tool)
    return server


def run_client(work, server=None, extensions=None, **how):
    given = [task_client.TasksClientExtension()] if extensions is None else extensions

    async def run():
        async with Client(server or make_server(), extensions=given, **how) as client:
            return await work(client)

    return anyio.run(run)


def test_a_long_build_is_a_task_that_ends_with_the_plain_result(project, stalled_source):
    async def work(client):
        task = await start_task(client, "build_kernel", BROKEN)
        at_first = await get_task(client, task)
        await wait_for_process(stalled_source)
        release_compiler(stalled_source)
        return at_first, await wait_until_ended(client, task)

    at_first, done = run_client(work, build_server())

    assert at_first.status == "working"
    assert at_first.result is None
    assert done.status == "completed"
    assert done.result["structuredContent"]["build"]["status"] == "built"


def test_a_task_is_a_job(project, stalled_source):
    async def work(client):
        task = await start_task(client, "build_kernel", BROKEN)
        return task, (await client.call_tool("job", {"id": task})).structured_content

    task, job = run_client(work, build_server())

    assert job["job"]["id"] == task
    assert job["job"]["status"] == "running"


def test_a_cancelled_task_leaves_no_compiler(project, stalled_source):
    async def work(client):
        task = await start_task(client, "build_kernel", BROKEN)
        await wait_for_process(stalled_source)
        await cancel_task(client, task)
        return await wait_until_ended(client, task), find_processes(stalled_source)

    task, left = run_client(work, build_server())

    assert task.status == "cancelled"
    assert left == []


def test_a_client_that_declares_nothing_gets_the_plain_result(project):
    make_broken_kernel(project, "right")

    async def work(client):
        return await client.call_tool("build_kernel", BROKEN)

    found = run_client(work, build_server(), extensions=[])

    assert found.structured_content["build"]["status"] == "built"


def test_a_short_call_does_not_become_a_task():
    async def work(client):
        return await client.call_tool("quick", {})

    assert run_client(work).content[0].text == "done"


def test_a_tool_that_is_always_a_task_refuses_other_clients():
    async def work(client):
        with pytest.raises(MCPError) as refused:
            await client.call_tool("slow", {})
        return refused.value.error

    error = run_client(work, extensions=[])

    assert error.code == -32021
    assert "io.modelcontextprotocol/tasks" in error.data["requiredCapabilities"]["extensions"]


@pytest.mark.parametrize("verb", [get_task, cancel_task])
def test_task_methods_are_rejected_without_the_extension(verb):
    async def work(client):
        with pytest.raises(MCPError) as refused:
            await verb(client, "slow-0")
        return refused.value.error.code

    assert run_client(work, extensions=[]) == -32021


@pytest.mark.parametrize("verb", [get_task, cancel_task])
def test_an_unknown_task_is_an_invalid_parameter(verb):
    async def work(client):
        with pytest.raises(MCPError, match="call the tool again") as refused:
            await verb(client, "slow-0")
        return refused.value.error.code

    assert run_client(work) == -32602


def test_the_older_protocol_has_no_such_verbs():
    async def work(client):
        with pytest.raises(MCPError) as refused:
            await get_task(client, "slow-0")
        return refused.value.error.code

    assert run_client(work, mode="legacy") == -32601


def test_a_tool_error_completes_the_task_with_an_error():
    async def work(client):
        return await wait_until_ended(client, await start_task(client, "refuses", {}))

    task = run_client(work)

    assert task.status == "completed"
    assert task.result["isError"] is True
    assert "no such thing" in task.result["content"][0]["text"]


def test_an_error_of_the_protocol_is_a_failed_task():
    async def work(client):
        return await wait_until_ended(client, await start_task(client, "breaks", {}))

    task = run_client(work)

    assert task.status == "failed"
    assert task.error["code"] == -32603
    assert task.result is None


def test_a_task_asks_and_goes_on_with_the_answer():
    async def work(client):
        task = await start_task(client, "asks", {})
        asking = await wait_for_status(client, task, "input_required")
        (key,) = asking.input_requests
        await update_task(client, task, {key: {"action": "accept", "content": {"name": "Ada"}}})
        return asking, await wait_until_ended(client, task)

    asking, done = run_client(work)

    assert list(asking.input_requests.values()) == [QUESTION]
    assert "Ada" in done.result["content"][0]["text"]


def test_a_task_waits_until_all_its_questions_are_answered():
    async def work(client):
        task = await start_task(client, "asks_twice", {})
        first, second = (await wait_for_status(client, task, "input_required")).input_requests
        await update_task(client, task, {first: "one", "never asked": "nothing"})
        between = await get_task(client, task)
        await update_task(client, task, {second: "two"})
        return second, between, await wait_until_ended(client, task)

    second, between, done = run_client(work)

    assert between.status == "input_required"
    assert list(between.input_requests) == [second]
    assert "['one', 'two']" in done.result["content"][0]["text"]


def test_a_tool_may_ask_before_it_becomes_a_task():
    async def work(client):
        first = await client.session.call_tool("asks_first", {}, allow_input_required=True)
        answers = {"who": {"action": "accept", "content": {"name": "Ada"}}}
        task = await start_task(client, "asks_first", {}, input_responses=answers)
        return first, await wait_until_ended(client, task)

    first, done = run_client(work)

    assert isinstance(first, InputRequiredResult)
    assert done.result["content"][0]["text"] == "thanks"


def test_a_plain_call_cannot_ask_the_client():
    async def run():
        with pytest.raises(ToolError, match="only a client with"):
            await ask_client(QUESTION)

    anyio.run(run)
