"""Tasks that ask the client for input while they run, which the official suite wants to see.

No tool of the product asks, so this half of the tasks extension (SEP-2663) is a fixture.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError

from kernelkb_mcp import server
from kernelkb_mcp.calls.jobs import Job, current_job
from kernelkb_mcp.calls.tasks import Context, TaskAnswers, TasksExtension

ClientRequest = Mapping[str, Any]
"""A request of the server to the client as on the wire: ``method`` and ``params``."""
_open_questions: dict[str, dict[str, tuple[ClientRequest, asyncio.Future[Any]]]] = defaultdict(dict)
"""Task id to key of a question to the question and its answer."""


async def ask_client(request: ClientRequest) -> Any:
    """Ask the client of the running task something, and wait for its answer.

    Args:
        request: Such as ``{"method": "elicitation/create", "params": {...}}``.

    Raises:
        ToolError: This call is no task, so its client cannot be asked in this way.
    """
    job = current_job()
    if job is None:
        raise ToolError("only a client with the tasks extension can be asked here")
    key = f"ask-{secrets.token_hex(8)}"  # never used twice in the life of a task
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    questions = _open_questions[job.id]
    questions[key] = (request, answer)
    job.notify_change()
    try:
        return await answer
    finally:
        questions.pop(key, None)


class AskingTasks(TasksExtension):
    """The product's extension, with the status ``input_required``."""

    def get_status(self, job: Job) -> str:
        """Return ``input_required`` while a question is open."""
        return (
            "input_required"
            if job.is_running and _open_questions[job.id]
            else (super().get_status(job))
        )

    def build_payload(self, job: Job) -> dict[str, Any]:
        """Return the open questions, or the result as ever."""
        if self.get_status(job) != "input_required":
            return super().build_payload(job)
        questions = _open_questions[job.id].items()
        return {"inputRequests": {key: request for key, (request, _) in questions}}

    async def _update_task(self, ctx: Context, params: TaskAnswers) -> Any:
        """Deliver answers; one to no open question is ignored."""
        acknowledged = await super()._update_task(ctx, params)
        for key, answer in params.input_responses.items():
            question = _open_questions[params.task_id].pop(key, None)
            if question is not None and not question[1].done():
                question[1].set_result(answer)
        self._find_job(ctx, params).notify_change()
        return acknowledged


def let_tasks_ask() -> None:
    """Let the servers that this process builds from now on ask in a task."""
    server.TasksExtension = AskingTasks
