"""Client side of the MCP tasks extension, as far as the tests need it."""

from typing import Any, Literal

import anyio
from mcp import types
from mcp.client import ClientExtension, ResultClaim

IDENTIFIER = "io.modelcontextprotocol/tasks"


class TaskCreated(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    ttl_ms: int
    poll_interval_ms: int


class TaskRequestParams(types.RequestParams):
    task_id: str


class TaskUpdateParams(TaskRequestParams):
    input_responses: dict[str, Any]


class GetTaskRequest(types.Request[TaskRequestParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskRequestParams
    name_param = "taskId"


class CancelTaskRequest(types.Request[TaskRequestParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskRequestParams
    name_param = "taskId"


class UpdateTaskRequest(types.Request[TaskUpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: TaskUpdateParams
    name_param = "taskId"


class TaskState(types.Result):
    task_id: str
    status: str
    status_message: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


class TasksClientExtension(ClientExtension):
    """Declares the tasks extension; tests poll their tasks themselves."""

    identifier = IDENTIFIER

    def claims(self):
        return [ResultClaim(result_type="task", model=TaskCreated, resolve=self.follow)]

    async def follow(self, created, context):
        raise AssertionError("the tests follow their tasks themselves")


async def start_task(client, name, arguments, **answers):
    """Call a tool that becomes a task; return the task's id."""
    made = await client.session.call_tool(name, arguments, allow_claimed=True, **answers)
    assert isinstance(made, TaskCreated), made
    return made.task_id


async def get_task(client, task):
    return await client.session.send_request(
        GetTaskRequest(params=TaskRequestParams(task_id=task)), TaskState
    )


async def cancel_task(client, task):
    params = TaskRequestParams(task_id=task)
    return await client.session.send_request(CancelTaskRequest(params=params), types.Result)


async def update_task(client, task, answers):
    params = TaskUpdateParams(task_id=task, input_responses=answers)
    return await client.session.send_request(UpdateTaskRequest(params=params), types.Result)


async def wait_for_status(client, task, *statuses):
    """Poll until a task has one of some statuses."""
    for _ in range(4800):
        found = await get_task(client, task)
        if found.status in statuses:
            return found
        await anyio.sleep(0.05)
    raise AssertionError(f"{task} is {found.status}")


async def wait_until_ended(client, task):
    return await wait_for_status(client, task, "completed", "failed", "cancelled")
