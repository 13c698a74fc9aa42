"""What the tools return: the engine's records, and what to call next."""

from __future__ import annotations

from typing import Any, Literal

from engine.model.base import Record
from engine.model.measurement import Bench, Build, Environment, Profile

JobStatus = Literal["running", "done", "failed", "cancelled"]


class JobState(Record):
    """Work that outlasted its call; this server keeps the handle for an hour after its end."""

    id: str
    tool: str
    call: str
    """The call that began it, as it can be made again."""
    status: JobStatus
    now: str
    """What it does now, or waits for."""
    elapsed_s: float
    expected_s: float | None
    """What the same call took before; null where nobody knows."""
    error: str | None = None
    """What the tool said when it failed."""


class EnvironmentResult(Record):
    """What this machine has and lacks, a line each."""

    summary: str
    environment: Environment
    next: tuple[str, ...]


class BuildResult(Record):
    """A compiled variant, or the compiler's first error: ``build.error`` and ``build.cure``."""

    summary: str
    build: Build | None
    """Null while ``job`` is still at it."""
    job: JobState | None = None
    next: tuple[str, ...]


class BenchResult(Record):
    """Times in microseconds; ``bench.verdict`` says whether they mean anything."""

    summary: str
    bench: Bench | None
    """Null while ``job`` is still at it."""
    job: JobState | None = None
    next: tuple[str, ...]


class ProfileResult(Record):
    """Metrics that explain, or the measurement that stopped the profile, or a job at work."""

    summary: str
    profile: Profile | None
    stopped_by: Bench | None
    job: JobState | None = None
    next: tuple[str, ...]


class LoggedSession(Record):
    """Where a retrospective was appended."""

    summary: str
    session: str
    file: str
    next: tuple[str, ...]


class JobResult(Record):
    """A job, and what its tool returned once it is done: the same object as without a job."""

    summary: str
    job: JobState | None
    """Null where no id was given."""
    jobs: tuple[JobState, ...] = ()
    """Without an id: those of this server, newest first."""
    result: dict[str, Any] | None
    next: tuple[str, ...]
