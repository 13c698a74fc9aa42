"""Work that may outlast the call that asked for it, and is found again by its handle."""

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

from kernelkb.measure.process.subprocesses import Cancelled
from kernelkb_mcp.results import JobState, JobStatus

INLINE_S = 45.0
LIFE_S = 3600.0
MOST_KEPT = 64
MOST_AT_WORK = 16
_MOST_NAMED = 8
_LONGEST_NOW = 200

Outcome = CallToolResult | InputRequiredResult
Work = Callable[["Job"], Awaitable[Outcome]]
_CURRENT: ContextVar[Job | None] = ContextVar("job", default=None)
_LOG = logging.getLogger(__name__)


class Asked(NamedTuple):
    """A call: the tool, and its arguments as they were given."""

    tool: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        given = (f"{name}={value!r}" for name, value in self.arguments.items() if value is not None)
        return f"{self.tool}({', '.join(given)})"

    @property
    def command(self) -> str:
        """The same call for a shell."""
        verb = self.tool.partition("_")[0]
        options = {k: v for k, v in self.arguments.items() if k != "kernel" and v is not None}
        words = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        return shlex.join(["kb", verb, str(self.arguments.get("kernel", "")), *words, "--json"])


def asked(tool: str, **arguments: Any) -> Asked:
    """Return a call."""
    return Asked(tool, arguments)


class Job:
    """One piece of work. Lives in the event loop of the server; only ``tell`` may come from others.

    Attributes:
        now: What it does, in a few words.
        outcome: What the tool returned; None before that, and where it raised.
        raised: What the tool raised.
        expected_s: Seconds that the same call took before; None where nobody knows.
        handed_out: Somebody holds the handle, and nobody waits in the call that began it.
        keep_until: Monotonic time before which nobody may make room by dropping it.
        extra: What an extension remembers with it.
    """

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.id = f"{asked.tool.partition('_')[0]}-{secrets.token_hex(16)}"
        self.began, self.ended = time.monotonic(), 0.0
        self.created = self.updated = datetime.now(UTC)
        self.now = "starting"
        self.outcome: Outcome | None = None
        self.raised: Exception | None = None
        self.expected_s: float | None = None
        self.handed_out = False
        self.keep_until = 0.0
        self.extra: Any = None
        self._cancelled = False
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._changed = anyio.Event()

    @property
    def running(self) -> bool:
        """Whether it is still at work."""
        return not self.ended

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began, to its end if it has ended."""
        return (self.ended or time.monotonic()) - self.began

    @property
    def status(self) -> JobStatus:
        """How it stands. Cancelled work that came to its end all the same is done."""
        if self.running:
            return "running"
        if self.raised is not None:
            return "failed"
        if self.outcome is None:
            return "cancelled"
        return "failed" if getattr(self.outcome, "is_error", False) else "done"

    @property
    def error(self) -> str | None:
        """What the tool said when it failed."""
        if self.raised is not None:
            known = isinstance(self.raised, ToolError | MCPError)
            return str(self.raised) if known else f"Error executing tool {self.asked.tool}"
        if self.status != "failed" or not isinstance(self.outcome, CallToolResult):
            return None
        return " ".join(part.text for part in self.outcome.content if isinstance(part, TextContent))

    def state(self, longest_error: int = 2000) -> JobState:
        """Return how it stands, as tools show it."""
        error = self.error
        return JobState(
            id=self.id,
            tool=self.asked.tool,
            call=str(self.asked),
            status=self.status,
            now=self.now if self.running else self.status,
            elapsed_s=round(self.elapsed_s, 1),
            expected_s=None if self.expected_s is None else round(self.expected_s, 1),
            error=None if error is None else error[:longest_error],
        )

    def result(self) -> Outcome:
        """Return what the tool returned, or raise what it raised.

        Raises:
            ToolError: It was cancelled.
        """
        if self.raised is not None:
            raise self.raised
        if self.outcome is None:
            raise ToolError(f"{self.asked.tool} was cancelled; run {self.asked} again")
        return self.outcome

    def tell(self, now: str) -> None:
        """Take note of what is done now, from whichever thread does it."""

        def heard() -> None:
            self.now = now[:_LONGEST_NOW]
            self.touched()

        try:
            self._loop.call_soon_threadsafe(heard)
        except RuntimeError:  # the server has ended
            return

    def touched(self) -> None:
        """Wake whoever waits for a change."""
        self.updated = datetime.now(UTC)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def change(self, said: str) -> None:
        """Wait until it does something else than was said, or has ended."""
        while self.running and self.now == said:
            await self._changed.wait()

    async def end(self) -> None:
        """Wait until nothing of it is left."""
        while self.running:
            await self._changed.wait()

    def cancel(self) -> None:
        """Ask it to end, with every process that it started; ``end`` waits for that."""
        if self.running and not self._cancelled and self._task is not None:
            self._cancelled = True
            self.now = "ending"
            self._task.cancel()

    def start(self, work: Work) -> None:
        """Begin, beside whatever the event loop does."""
        self._task = self._loop.create_task(self._run(work), name=self.id)

    async def _run(self, work: Work) -> None:
        _CURRENT.set(self)
        try:
            self.outcome = await work(self)
        except (asyncio.CancelledError, Cancelled):
            return  # the status says so
        except (ToolError, MCPError) as error:
            self.raised = error
        except Exception as error:
            self.raised = error
            if self.handed_out:  # else the call that waits for it says so
                _LOG.exception("job %s ended in an error of its own", self.id)
        finally:
            self.ended = time.monotonic()
            self.touched()


def current_job() -> Job | None:
    """Return the job that this code runs in, if it does."""
    return _CURRENT.get()


class Jobs:
    """The jobs of one server."""

    def __init__(
        self,
        inline_s: float = INLINE_S,
        life_s: float = LIFE_S,
        most_kept: int = MOST_KEPT,
        most_at_work: int = MOST_AT_WORK,
    ) -> None:
        self.inline_s, self.life_s = inline_s, life_s
        self._most_kept, self._most_at_work = most_kept, most_at_work
        self._jobs: dict[str, Job] = {}

    def __iter__(self) -> Iterator[Job]:
        """Jobs whose handle is out, newest first."""
        self._drop()
        return iter([job for job in reversed(self._jobs.values()) if job.handed_out])

    def start(self, asked: Asked, work: Work) -> Job:
        """Begin a piece of work.

        Raises:
            ToolError: Too many are at work.
        """
        self._drop()
        if sum(job.running for job in self._jobs.values()) >= self._most_at_work:
            raise ToolError(
                f"{self._most_at_work} jobs are at work, as many as this server takes; job() lists "
                "them, job(id=..., action='wait') waits for one, action='cancel' ends one"
            )
        job = Job(asked)
        self._jobs[job.id] = job
        job.start(work)
        return job

    def hand_out(self, job: Job, keep_s: float = 0.0) -> None:
        """Let a job outlive its call; it is kept for so many seconds from now at the least."""
        job.handed_out = True
        job.keep_until = time.monotonic() + keep_s

    def forget(self, job: Job) -> None:
        """Drop a job whose handle nobody has."""
        self._jobs.pop(job.id, None)

    def find(self, handle: str) -> Job:
        """Return the job with a handle.

        Raises:
            ToolError: It is not known, or no more.
        """
        job = self.get(handle)
        if job is not None:
            return job
        running = [f"{job.id} ({job.asked})" for job in self if job.running]
        raise ToolError(
            f"no job {handle!r} on this server, which keeps one for {self.life_s / 60:.0f} min "
            "after its end; run the tool again, or see what was recorded: recommend_fix(run=...), "
            f"kb history; at work now: {', '.join(running[:_MOST_NAMED]) or 'none'}"
        )

    def get(self, handle: str) -> Job | None:
        """Return the job with a handle, if it is still known."""
        self._drop()
        job = self._jobs.get(handle)
        return job if job is not None and job.handed_out else None

    def _drop(self) -> None:
        """Drop what ended too long ago, and the oldest of what ended where there are too many."""
        now = time.monotonic()
        over = [j for j in self._jobs.values() if not j.running and j.keep_until <= now]
        over.sort(key=lambda job: job.ended)
        spare = len(self._jobs) - self._most_kept
        for at, job in enumerate(over):
            if at < spare or now - job.ended > self.life_s:
                self.forget(job)
