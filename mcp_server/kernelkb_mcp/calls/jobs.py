"""Background jobs: work that may outlive the tool call that started it, found by a handle."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shlex
import time
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, NamedTuple

import anyio
from mcp import MCPError
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, TextContent

from kernelkb.progress import OperationCancelled, ProgressEvent
from kernelkb_mcp.views.results import JobState, JobStatus

INLINE_S = 45.0
"""Seconds that a call waits for its work before it returns a handle."""
RETENTION_S = 3600.0
"""Seconds that an ended job can still be asked for."""
MAX_JOBS = 64
MAX_RUNNING_JOBS = 16
_MAX_LISTED_JOBS = 8
_MAX_ACTIVITY_CHARS = 200
_MAX_KNOWN_CHARS = 600
_NO_OPTIONS = ("kernel", "restore", "file", "add_from", "command")
"""Arguments of tools that are no options of the command of the same name."""

Outcome = CallToolResult | InputRequiredResult
JobFunction = Callable[["Job"], Awaitable[Outcome]]
_CURRENT_JOB: ContextVar[Job | None] = ContextVar("job", default=None)
_LOG = logging.getLogger(__name__)


class ToolCall(NamedTuple):
    """A tool call: tool name and arguments as given; ``str`` shows it as code."""

    tool: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        given = (f"{name}={value!r}" for name, value in self.arguments.items() if value is not None)
        return f"{self.tool}({', '.join(given)})"

    @property
    def shell_command(self) -> str:
        """The equivalent ``kb`` command line, which writes no source."""
        verb = self.tool.partition("_")[0]
        given = {name: value for name, value in self.arguments.items() if value is not None}
        options = {k: v for k, v in given.items() if k not in _NO_OPTIONS}
        words = [
            part
            for name, value in options.items()
            for part in ([f"--{name}"] if value is True else [f"--{name}", str(value)])
        ]
        kernel = [str(given["kernel"])] if "kernel" in given else []
        if "command" in given:
            only = ["--kernel", *kernel] if kernel else []
            return f"{shlex.join(['kb', verb, '--json', *only])} -- {given['command']}"
        return shlex.join(["kb", verb, *kernel, *words, "--json"])


def make_tool_call(tool: str, **arguments: Any) -> ToolCall:
    """Return the call of a tool with keyword arguments."""
    return ToolCall(tool, arguments)


class Job:
    """One piece of work in the server's event loop.

    Only ``report_activity`` may be called from other threads.

    Attributes:
        activity: What it does now, in a few words.
        outcome: What the tool returned; None until then, or if it raised.
        exception: What the tool raised; None otherwise.
        expected_s: Median duration of the same call before, in seconds; None for a first call.
        is_detached: The client holds the handle, and no call waits for the job any more.
        keep_until: Monotonic time in seconds until which the job is not dropped to make room.
    """

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.id = f"{call.tool.partition('_')[0]}-{secrets.token_hex(16)}"
        self.started_s, self.ended_s = time.monotonic(), 0.0
        self.created_at = self.updated_at = datetime.now(UTC)
        self.activity = "starting"
        self.outcome: Outcome | None = None
        self.exception: Exception | None = None
        self.expected_s: float | None = None
        self.is_detached = False
        self.keep_until = 0.0
        self._cancel_requested = False
        self._notices: list[str] = []
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._change_event = anyio.Event()

    @property
    def is_running(self) -> bool:
        """Whether the work has not ended."""
        return not self.ended_s

    @property
    def elapsed_s(self) -> float:
        """Seconds from start to end, or to now."""
        return (self.ended_s or time.monotonic()) - self.started_s

    @property
    def status(self) -> JobStatus:
        """Current status; work that finished despite a cancellation counts as done."""
        if self.is_running:
            return "running"
        if self.exception is not None:
            return "failed"
        if self.outcome is None:
            return "cancelled"
        return "failed" if getattr(self.outcome, "is_error", False) else "done"

    @property
    def error(self) -> str | None:
        """The failed tool's message; None if it did not fail."""
        if self.exception is not None:
            known = isinstance(self.exception, ToolError | MCPError)
            return str(self.exception) if known else f"Error executing tool {self.call.tool}"
        if self.status != "failed" or not isinstance(self.outcome, CallToolResult):
            return None
        return " ".join(part.text for part in self.outcome.content if isinstance(part, TextContent))

    def state(self, longest_error: int = 2000) -> JobState:
        """Return the state as tools show it; the error is cut at ``longest_error`` characters."""
        error = self.error
        return JobState(
            id=self.id,
            tool=self.call.tool,
            call=str(self.call),
            status=self.status,
            now=self.activity if self.is_running else self._describe_end(),
            elapsed_s=round(self.elapsed_s, 1),
            expected_s=None if self.expected_s is None else round(self.expected_s, 1),
            error=None if error is None else error[:longest_error],
        )

    def _describe_end(self) -> str:
        """Return the status; of a cancelled job with what it knew until then."""
        known = self._notices if self.status == "cancelled" else []
        return "; ".join([self.status, *known])[:_MAX_KNOWN_CHARS]

    def result(self) -> Outcome:
        """Return what the tool returned, or raise what it raised.

        Raises:
            ToolError: It was cancelled.
        """
        if self.exception is not None:
            raise self.exception
        if self.outcome is None:
            raise ToolError(f"{self.call.tool} was cancelled; run {self.call} again")
        return self.outcome

    def report_activity(self, event: ProgressEvent) -> None:
        """Record what the work does now. May be called in any thread."""

        def set_activity() -> None:
            self.activity = event.text[:_MAX_ACTIVITY_CHARS]
            if event.kind == "notice":
                self._notices.append(event.text)
            self.notify_change()

        try:
            self._loop.call_soon_threadsafe(set_activity)
        except RuntimeError:  # the server has ended
            return

    def notify_change(self) -> None:
        """Wake all waiters."""
        self.updated_at = datetime.now(UTC)
        changed, self._change_event = self._change_event, anyio.Event()
        changed.set()

    async def wait_for_change(self, activity: str) -> None:
        """Wait until the activity differs from the given one, or the job has ended."""
        while self.is_running and self.activity == activity:
            await self._change_event.wait()

    async def wait_until_done(self) -> None:
        """Wait until the job has ended."""
        while self.is_running:
            await self._change_event.wait()

    def cancel(self) -> None:
        """Request cancellation, child processes included; ``wait_until_done`` waits for it."""
        if self.is_running and not self._cancel_requested and self._task is not None:
            self._cancel_requested = True
            self.activity = "ending"
            self._task.cancel()

    def start(self, work: JobFunction) -> None:
        """Start the work as a task of the event loop."""
        self._task = self._loop.create_task(self._run(work), name=self.id)

    async def _run(self, work: JobFunction) -> None:
        _CURRENT_JOB.set(self)
        try:
            self.outcome = await work(self)
        except (asyncio.CancelledError, OperationCancelled):
            return  # the status is derived from the missing outcome
        except (ToolError, MCPError) as error:
            self.exception = error
        except Exception as error:
            self.exception = error
            if self.is_detached:  # otherwise the waiting call reports it
                _LOG.exception("job %s ended in an error of its own", self.id)
        finally:
            self.ended_s = time.monotonic()
            self.notify_change()


def current_job() -> Job | None:
    """Return the job that the current task runs in, or None."""
    return _CURRENT_JOB.get()


class JobRegistry:
    """The jobs of one server, with limits on their number and retention."""

    def __init__(
        self,
        inline_s: float = INLINE_S,
        retention_s: float = RETENTION_S,
        max_jobs: int = MAX_JOBS,
        max_running: int = MAX_RUNNING_JOBS,
    ) -> None:
        self.inline_s, self.retention_s = inline_s, retention_s
        self._max_jobs, self._max_running = max_jobs, max_running
        self._jobs: dict[str, Job] = {}

    def __iter__(self) -> Iterator[Job]:
        """Iterate over detached jobs, newest first."""
        self._drop_expired()
        return iter([job for job in reversed(self._jobs.values()) if job.is_detached])

    def start(self, call: ToolCall, work: JobFunction) -> Job:
        """Start a job.

        Raises:
            ToolError: Too many jobs are running.
        """
        self._drop_expired()
        if sum(job.is_running for job in self._jobs.values()) >= self._max_running:
            raise ToolError(
                f"{self._max_running} jobs are running, the most this server allows; job() lists "
                "them, job(id=..., action='wait') waits for one, action='cancel' ends one"
            )
        job = Job(call)
        self._jobs[job.id] = job
        job.start(work)
        return job

    def detach(self, job: Job, keep_s: float = 0.0) -> None:
        """Let a job outlive its call; keep it for at least ``keep_s`` seconds from now."""
        job.is_detached = True
        job.keep_until = time.monotonic() + keep_s

    def forget(self, job: Job) -> None:
        """Drop a job whose handle was never given out."""
        self._jobs.pop(job.id, None)

    def find(self, handle: str) -> Job:
        """Return the job with a handle.

        Raises:
            ToolError: The handle is unknown or expired.
        """
        job = self.get(handle)
        if job is not None:
            return job
        running = [f"{job.id} ({job.call})" for job in self if job.is_running]
        raise ToolError(
            f"no job {handle!r} on this server, which keeps jobs for {self.retention_s / 60:.0f} "
            "min after they end; run the tool again, or read the record: "
            "recommend_fix(run=...), kb lab history; running now: "
            f"{', '.join(running[:_MAX_LISTED_JOBS]) or 'none'}"
        )

    def get(self, handle: str) -> Job | None:
        """Return the detached job with a handle, or None."""
        self._drop_expired()
        job = self._jobs.get(handle)
        return job if job is not None and job.is_detached else None

    def _drop_expired(self) -> None:
        """Drop jobs that ended too long ago, and the oldest ended ones above the limit."""
        now = time.monotonic()
        over = [j for j in self._jobs.values() if not j.is_running and j.keep_until <= now]
        over.sort(key=lambda job: job.ended_s)
        spare = len(self._jobs) - self._max_jobs
        for at, job in enumerate(over):
            if at < spare or now - job.ended_s > self.retention_s:
                self.forget(job)
