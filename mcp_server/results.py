"""What the tools return: the engine's records, and what to call next."""

from __future__ import annotations

import json
from typing import Any, Literal

from engine.model.base import Record
from engine.model.measurement import Bench, Build, Environment, Profile

_LONGEST_CALL = 2000


def recommend_call(made: Bench | Profile) -> str:
    """Return the call that decides on a result: by its metrics if they are few, or its record."""
    metrics = {name: float(f"{value:.6g}") for name, value in made.metrics.items()}
    if len(json.dumps(metrics)) > _LONGEST_CALL and made.measurement is not None:
        return f"recommend_fix(run={made.measurement[:12]!r})"
    while len(json.dumps(metrics)) > _LONGEST_CALL:  # there is no record: some are better than none
        metrics = dict(list(metrics.items())[: len(metrics) // 2])
    return f"recommend_fix(target={made.target!r}, metrics={json.dumps(metrics)})"


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


class LongResult(Record):
    """What a tool returns whose work may outlast its call: then ``job`` is at it, the rest null.

    What such a tool adds has no default.
    """

    summary: str
    next: tuple[str, ...]
    job: JobState | None = None
    left_out: str | None = None
    """What was cut to keep this short, and the command that shows it."""


class EnvironmentResult(Record):
    """What this machine has and lacks, a line each."""

    summary: str
    environment: Environment
    next: tuple[str, ...]


class BuildResult(LongResult):
    """A compiled variant, or the compiler's first error: ``build.error`` and ``build.cure``."""

    build: Build | None
    """Null while ``job`` is still at it."""


class BenchResult(LongResult):
    """Times in microseconds; ``bench.verdict`` says whether they mean anything."""

    bench: Bench | None
    """Null while ``job`` is still at it."""


class ProfileResult(LongResult):
    """Metrics that explain, or the measurement that stopped the profile, or a job at work."""

    profile: Profile | None
    stopped_by: Bench | None


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
