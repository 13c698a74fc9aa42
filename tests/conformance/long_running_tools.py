"""Tools that become tasks, for clients that declare the extension."""

from __future__ import annotations

import anyio
from asking_tasks import ask_client
from elicitation_tools import Answer, build_form_request, read_form_answer, text_result
from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import INTERNAL_ERROR, CallToolResult, ElicitRequest, InputRequiredResult

from kernelkb_mcp.calls.tasks import TaskSupport


async def greet(name: str) -> CallToolResult:
    """Greet at once."""
    return text_result(f"Hello, {name}!")


async def slow_compute(seconds: float, label: str = "") -> CallToolResult:
    """Sleep for so many seconds."""
    await anyio.sleep(seconds)
    return text_result(f"{label} took {seconds} s")


async def failing_job() -> CallToolResult:
    """Fail after a second."""
    await anyio.sleep(1)
    raise ToolError("this job fails on purpose")


async def protocol_error_job() -> CallToolResult:
    """Break in the way of the protocol."""
    await anyio.sleep(0.3)
    raise MCPError(INTERNAL_ERROR, "this job breaks on purpose")


async def confirm_delete(filename: str) -> CallToolResult:
    """Ask before it does anything."""
    answer = await ask_client(
        dump_request(build_form_request(f"Delete {filename}?", confirm="boolean"))
    )
    return text_result(f"{filename}: {answer}")


async def multi_input() -> CallToolResult:
    """Ask two things at once."""
    answers = {}

    async def ask_for(key: str) -> None:
        answers[key] = await ask_client(
            dump_request(build_form_request(f"What is the {key}?", value="string"))
        )

    async with anyio.create_task_group() as group:
        group.start_soon(ask_for, "first")
        group.start_soon(ask_for, "second")
    return text_result(f"{answers}")


async def test_tool_with_task(ctx: Context) -> Answer:
    """Ask in the way of calls, then work in the way of tasks."""
    answer = read_form_answer(ctx, "user_name")
    if answer is None:
        question = build_form_request("What is your name?", name="string")
        return InputRequiredResult(input_requests={"user_name": question})
    await anyio.sleep(0.5)
    return text_result(f"worked for {answer['name']}")


def dump_request(request: ElicitRequest) -> dict[str, object]:
    return request.model_dump(by_alias=True, mode="json", exclude_none=True)


LONG_RUNNING_TOOLS = (
    greet,
    slow_compute,
    failing_job,
    protocol_error_job,
    confirm_delete,
    multi_input,
    test_tool_with_task,
)
TASKS: dict[str, TaskSupport] = {
    "slow_compute": "optional",
    "failing_job": "required",
    "protocol_error_job": "optional",
    "confirm_delete": "optional",
    "multi_input": "optional",
    "test_tool_with_task": "required",
}
