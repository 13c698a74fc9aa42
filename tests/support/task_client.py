"""The client half of the tasks extension, as far as the tests need it."""

from typing import Any, Literal

import anyio
from mcp import types
from mcp.client import ClientExtension, ResultClaim

IDENTIFIER = "io.modelcontextprotocol/tasks"


class Created(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    ttl_ms: int
    poll_interval_ms: int


class Which(types.RequestParams):
    task_id: str


class Answers(Which):
    input_responses: dict[str, Any]


class Get(types.Request[Which, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: Which
    name_param = "taskId"


class Cancel(types.Request[Which, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: Which
    name_param = "taskId"


class Update(types.Request[Answers, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: Answers
    name_param = "taskId"


class Task(types.Result):
    task_id: str
    status: str
    status_message: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


class Tasks(ClientExtension):
    """Declares the extension."""

    identifier = IDENTIFIER

    def claims(self):
        return [ResultClaim(result_type="task", model=Created, resolve=self.follow)]

    async def follow(self, created, context):
        raise AssertionError("the tests follow their tasks themselves")


async def started(client, name, arguments, **answers):
    """Call a tool that becomes a task; return the id."""
    made = await client.session.call_tool(name, arguments, allow_claimed=True, **answers)
    assert isinstance(made, Created), made
    return made.task_id


async def get(client, task):
    return await client.session.send_request(Get(params=Which(task_id=task)), Task)


async def cancel(client, task):
    params = Which(task_id=task)
    return await client.session.send_request(Cancel(params=params), types.Result)


async def update(client, task, answers):
    params = Answers(task_id=task, input_responses=answers)
    return await client.session.send_request(Update(params=params), types.Result)


async def until(client, task, *statuses):
    """Poll until a task has one of some statuses."""
    for _ in range(1200):
        found = await get(client, task)
        if found.status in statuses:
            return found
        await anyio.sleep(0.05)
    raise AssertionError(f"{task} is {found.status}")


async def ended(client, task):
    return await until(client, task, "completed", "failed", "cancelled")
