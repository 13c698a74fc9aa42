"""The tasks extension of MCP (SEP-2663): long calls of clients that ask for a task to poll.

A task is a job of the server under another name: its id is the job's handle, and the ``job`` tool
finds it too.
"""

from __future__ import annotations

import asyncio
import secrets
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

from kernelkb_mcp.jobs import Asked, Job, Jobs, Outcome, current_job

IDENTIFIER = "io.modelcontextprotocol/tasks"
VERSION = "2026-07-28"
Support = Literal["optional", "required"]
Request = Mapping[str, Any]
"""What a server asks of a client, as it stands on the wire: ``method`` and ``params``."""
Context = ServerRequestContext[Any, Any]


class TaskParams(RequestParams):
    """Which task."""

    task_id: str = Field(max_length=200)


class TaskAnswers(TaskParams):
    """Answers to what a task asked, by the keys of its questions."""

    input_responses: dict[str, Any] = Field(default_factory=dict)


class Questions(dict[str, tuple[Request, "asyncio.Future[Any]"]]):
    """What a task wants to know of its client, until it is answered."""

    async def put(self, request: Request, job: Job) -> Any:
        """Ask, and wait for the answer."""
        key = f"ask-{secrets.token_hex(8)}"  # never used twice in the life of a task
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self[key] = (request, answer)
        job.touched()
        try:
            return await answer
        finally:
            self.pop(key, None)

    def answered(self, key: str, answer: Any) -> None:
        """Deliver one answer; one to no open question is ignored, as the extension asks."""
        open_question = self.pop(key, None)
        if open_question is not None and not open_question[1].done():
            open_question[1].set_result(answer)


async def ask(request: Request) -> Any:
    """Ask the client of the running task something, and wait for what it answers.

    Args:
        request: Such as ``{"method": "elicitation/create", "params": {...}}``.

    Raises:
        ToolError: This call is no task: whoever made it cannot be asked in this way.
    """
    job = current_job()
    if job is None or not isinstance(job.extra, Questions):
        raise ToolError(f"only a client with {IDENTIFIER} can be asked here")
    return await job.extra.put(request, job)


class Tasks(Extension):
    """Turns calls of some tools into tasks, for clients that declare the extension.

    Args:
        tools: Tools by name. ``optional``: other clients wait for the result as ever, and a call
            that ends within ``patience_s`` is answered directly. ``required``: other clients are
            refused.
        jobs: Where the work is kept; the server's own.
        ttl_ms: How long a task can be asked for after it began, at the least.
        poll_ms: How often a client should ask.
        patience_s: How long a call is given to end, or to ask for input in the way of calls that
            are no tasks, before it becomes a task.
    """

    identifier = IDENTIFIER

    def __init__(
        self,
        tools: Mapping[str, Support],
        jobs: Jobs,
        *,
        ttl_ms: int = 3_600_000,
        poll_ms: int = 1000,
        patience_s: float = 0.25,
    ) -> None:
        self._tools, self._jobs = dict(tools), jobs
        self._ttl_ms, self._poll_ms, self._patience_s = ttl_ms, poll_ms, patience_s

    def methods(self) -> Sequence[MethodBinding]:
        """Serve the three verbs, to clients of the protocol that knows them."""
        only = frozenset({VERSION})
        return [
            MethodBinding("tasks/get", TaskParams, self._get, only),
            MethodBinding("tasks/update", TaskAnswers, self._update, only),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, only),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        """Answer with a task where the tool, the client and the protocol allow for one."""
        support = self._tools.get(params.name)
        if support == "required":
            require_client_extension(ctx, IDENTIFIER)
        if support is None or ctx.protocol_version != VERSION or not _declared(ctx):
            return await call_next(ctx)
        job = self._start(params, ctx, call_next)
        try:
            with anyio.move_on_after(self._patience_s):
                await job.end()
        except BaseException:  # whoever called will never learn the id
            job.cancel()
            with anyio.CancelScope(shield=True):
                await job.end()
            self._jobs.forget(job)
            raise
        asks = isinstance(job.outcome, InputRequiredResult)
        if asks or (support == "optional" and not job.running):
            self._jobs.forget(job)
            return job.result()
        self._jobs.hand_out(job, keep_s=self._ttl_ms / 1000)
        return {"resultType": "task", **self._seen(job)}

    def _start(self, params: CallToolRequestParams, ctx: Context, call_next: CallNext) -> Job:
        async def work(_job: Job) -> Outcome:
            made = await call_next(ctx)
            if not isinstance(made, CallToolResult | InputRequiredResult):
                raise MCPError(INTERNAL_ERROR, f"{params.name} returned no result of a tool")
            return made

        try:
            job = self._jobs.start(Asked(params.name, params.arguments or {}), work)
        except ToolError as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from None
        job.extra = Questions()
        return job

    def _find(self, ctx: Context, params: TaskParams) -> Job:
        require_client_extension(ctx, IDENTIFIER)
        headers = getattr(ctx.request, "headers", None)
        if headers is not None and headers.get("mcp-name") != params.task_id:
            raise MCPError(HEADER_MISMATCH, "the header Mcp-Name is not the taskId of the body")
        job = self._jobs.get(params.task_id)
        if job is None:
            raise MCPError(INVALID_PARAMS, "unknown or expired taskId; call the tool again")
        return job

    async def _get(self, ctx: Context, params: TaskParams) -> HandlerResult:
        job = self._find(ctx, params)
        return {"resultType": "complete", **self._seen(job), **_payload(job)}

    async def _update(self, ctx: Context, params: TaskAnswers) -> HandlerResult:
        job = self._find(ctx, params)
        for key, answer in params.input_responses.items():
            if isinstance(job.extra, Questions):
                job.extra.answered(key, answer)
        job.touched()
        return {"resultType": "complete"}

    async def _cancel(self, ctx: Context, params: TaskParams) -> HandlerResult:
        self._find(ctx, params).cancel()
        return {"resultType": "complete"}

    def _seen(self, job: Job) -> dict[str, Any]:
        return {
            "taskId": job.id,
            "status": _status(job),
            "statusMessage": job.error or job.now,
            "createdAt": _stamp(job.created),
            "lastUpdatedAt": _stamp(job.updated),
            "ttlMs": self._ttl_ms,
            "pollIntervalMs": self._poll_ms,
        }


def _declared(ctx: Context) -> bool:
    able = ctx.session.client_capabilities
    return able is not None and IDENTIFIER in (able.extensions or {})


def _status(job: Job) -> str:
    """Return how a job stands in the words of the extension: what a tool refused is completed."""
    if job.running:
        return "input_required" if job.extra else "working"
    if job.status == "cancelled":
        return "cancelled"
    refused = isinstance(job.raised, ToolError)
    return "completed" if refused or isinstance(job.outcome, CallToolResult) else "failed"


def _payload(job: Job) -> dict[str, Any]:
    """Return what ``tasks/get`` adds: a result, an error or questions, by the status."""
    status = _status(job)
    if status == "input_required":
        return {"inputRequests": {key: request for key, (request, _) in job.extra.items()}}
    if status == "completed":
        result = job.outcome
        if result is None:
            result = CallToolResult(content=[TextContent(text=job.error or "")], is_error=True)
        return {"result": result.model_dump(by_alias=True, mode="json", exclude_none=True)}
    if status != "failed":
        return {}
    if isinstance(job.raised, MCPError):
        return {"error": job.raised.error.model_dump(mode="json", exclude_none=True)}
    said = job.error or f"{job.asked.tool} asked for input after it had become a task"
    return {"error": {"code": INTERNAL_ERROR, "message": said}}


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
