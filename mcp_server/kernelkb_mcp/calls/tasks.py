"""MCP tasks extension (SEP-2663): long tool calls as tasks that the client polls.

A task is a server job: its id is the job's handle, and the ``job`` tool finds it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import anyio
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    RequestParams,
    TextContent,
)
from pydantic import Field

from kernelkb_mcp.calls.jobs import Job, JobRegistry, Outcome, ToolCall

EXTENSION_ID = "io.modelcontextprotocol/tasks"
PROTOCOL_VERSION = "2026-07-28"
TaskSupport = Literal["optional", "required"]
Context = ServerRequestContext[Any, Any]


class TaskParams(RequestParams):
    """Parameters that name a task."""

    task_id: str = Field(max_length=200)


class TaskAnswers(TaskParams):
    """Answers to questions of a task, by the keys of the questions."""

    input_responses: dict[str, Any] = Field(default_factory=dict)


class TasksExtension(Extension):
    """Turns calls of some tools into tasks, for clients that declare the extension.

    Args:
        tools: Tools by name. ``optional``: clients without the extension wait for the result, and
            a call that ends within ``direct_answer_s`` is answered directly. ``required``:
            clients without the extension get an error.
        jobs: The server's job registry.
        ttl_ms: Minimum time after its start that a task can be polled, in milliseconds.
        poll_ms: Suggested polling interval in milliseconds.
        direct_answer_s: How long a call is given to end, or to ask for input in the way of calls
            that are no tasks, before it becomes a task.
    """

    identifier = EXTENSION_ID

    def __init__(
        self,
        tools: Mapping[str, TaskSupport],
        jobs: JobRegistry,
        *,
        ttl_ms: int = 3_600_000,
        poll_ms: int = 1000,
        direct_answer_s: float = 0.25,
    ) -> None:
        self._tools, self._jobs = dict(tools), jobs
        self._ttl_ms, self._poll_ms, self._direct_answer_s = ttl_ms, poll_ms, direct_answer_s

    def methods(self) -> Sequence[MethodBinding]:
        """Register the three task methods for the protocol version that has them."""
        only = frozenset({PROTOCOL_VERSION})
        return [
            MethodBinding("tasks/get", TaskParams, self._get_task, only),
            MethodBinding("tasks/update", TaskAnswers, self._update_task, only),
            MethodBinding("tasks/cancel", TaskParams, self._cancel_task, only),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        """Answer with a task if tool, client and protocol version support it."""
        support = self._tools.get(params.name)
        if support == "required":
            require_client_extension(ctx, EXTENSION_ID)
        if (
            support is None
            or ctx.protocol_version != PROTOCOL_VERSION
            or not _client_declares_tasks(ctx)
        ):
            return await call_next(ctx)
        job = self._start_job(params, ctx, call_next)
        try:
            with anyio.move_on_after(self._direct_answer_s):
                await job.wait_until_done()
        except BaseException:  # cancelled: the caller never learns the id
            job.cancel()
            with anyio.CancelScope(shield=True):
                await job.wait_until_done()
            self._jobs.forget(job)
            raise
        asks = isinstance(job.outcome, InputRequiredResult)
        if asks or (support == "optional" and not job.is_running):
            self._jobs.forget(job)
            return job.result()
        self._jobs.detach(job, keep_s=self._ttl_ms / 1000)
        return {"resultType": "task", **self._describe_task(job)}

    def _start_job(self, params: CallToolRequestParams, ctx: Context, call_next: CallNext) -> Job:
        async def run_call(_job: Job) -> Outcome:
            result = await call_next(ctx)
            if not isinstance(result, CallToolResult | InputRequiredResult):
                raise MCPError(INTERNAL_ERROR, f"{params.name} returned no result of a tool")
            return result

        try:
            job = self._jobs.start(ToolCall(params.name, params.arguments or {}), run_call)
        except ToolError as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from None
        return job

    def _find_job(self, ctx: Context, params: TaskParams) -> Job:
        require_client_extension(ctx, EXTENSION_ID)
        headers = getattr(ctx.request, "headers", None)
        if headers is not None and headers.get("mcp-name") != params.task_id:
            raise MCPError(HEADER_MISMATCH, "the header Mcp-Name is not the taskId of the body")
        job = self._jobs.get(params.task_id)
        if job is None:
            raise MCPError(INVALID_PARAMS, "unknown or expired taskId; call the tool again")
        return job

    async def _get_task(self, ctx: Context, params: TaskParams) -> HandlerResult:
        job = self._find_job(ctx, params)
        return {"resultType": "complete", **self._describe_task(job), **self.build_payload(job)}

    async def _update_task(self, ctx: Context, params: TaskAnswers) -> HandlerResult:
        """Acknowledge answers; no tool asks, and the extension lets a server ignore the rest."""
        self._find_job(ctx, params)
        return {"resultType": "complete"}

    async def _cancel_task(self, ctx: Context, params: TaskParams) -> HandlerResult:
        self._find_job(ctx, params).cancel()
        return {"resultType": "complete"}

    def _describe_task(self, job: Job) -> dict[str, Any]:
        return {
            "taskId": job.id,
            "status": self.get_status(job),
            "statusMessage": job.error or job.activity,
            "createdAt": _format_timestamp(job.created_at),
            "lastUpdatedAt": _format_timestamp(job.updated_at),
            "ttlMs": self._ttl_ms,
            "pollIntervalMs": self._poll_ms,
        }

    def get_status(self, job: Job) -> str:
        """Return a job's status by the extension; a tool's refusal counts as completed."""
        if job.is_running:
            return "working"
        if job.status == "cancelled":
            return "cancelled"
        refused = isinstance(job.exception, ToolError)
        return "completed" if refused or isinstance(job.outcome, CallToolResult) else "failed"

    def build_payload(self, job: Job) -> dict[str, Any]:
        """Return the keys that ``tasks/get`` adds: a result or an error, by the status."""
        status = self.get_status(job)
        if status == "completed":
            result = job.outcome
            if result is None:
                result = CallToolResult(content=[TextContent(text=job.error or "")], is_error=True)
            return {"result": result.model_dump(by_alias=True, mode="json", exclude_none=True)}
        if status != "failed":
            return {}
        if isinstance(job.exception, MCPError):
            return {"error": job.exception.error.model_dump(mode="json", exclude_none=True)}
        message = job.error or f"{job.call.tool} asked for input after it had become a task"
        return {"error": {"code": INTERNAL_ERROR, "message": message}}


def _client_declares_tasks(ctx: Context) -> bool:
    able = ctx.session.client_capabilities
    return able is not None and EXTENSION_ID in (able.extensions or {})


def _format_timestamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
