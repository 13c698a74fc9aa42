"""What the tools return: the engine's records, and what to call next."""

from __future__ import annotations

import json
from typing import Any, Literal

from engine.model.base import Record
from engine.model.measurement import Bench, Build, Environment, Profile
from engine.model.recommendation import KernelAnswer, KnowledgeStamp

_ID_SHOWN = 12
"""Digits of a record's id in a call: enough for a billion records."""


def recommend_call(made: Bench | Profile) -> str:
    """Return the call that decides on a result: by its record, or by its metrics without one."""
    if made.measurement is not None:
        return f"recommend_fix(run={made.measurement[:_ID_SHOWN]!r})"
    metrics = {name: float(f"{value:.6g}") for name, value in made.metrics.items()}
    return f"recommend_fix(target={made.target!r}, metrics={json.dumps(metrics)})"


class JobState(Record):
    """Work that outlasted its call; the handle is good on this server until it ends."""

    id: str
    tool: str
    status: Literal["running", "done", "failed", "cancelled"]
    now: str
    """What it does now, or waits for."""
    elapsed_s: float
    expected_s: float | None
    """What it took before; null where nobody knows."""


class SearchHit(Record):
    """One entry that was found."""

    kind: str
    id: str
    title: str
    score: float
    """The higher, the better it fits; means nothing beyond this answer."""


class SearchResult(Record):
    """Entries that fit, the best first."""

    summary: str
    hits: tuple[SearchHit, ...]
    next: tuple[str, ...]


class EntryResult(Record):
    """One entry, or the entries of a kind; as much as fits."""

    summary: str
    entry: dict[str, Any] | None
    """Fields in their order; null for a list."""
    entries: tuple[dict[str, Any], ...] | None
    """Ids and titles; null for an entry."""
    cursor: str | None
    """Where the rest begins; null where nothing is left."""
    next: tuple[str, ...]


class ShownKernel(KernelAnswer):
    """What there is to say about one kernel, as much as fits."""

    also_matches: tuple[str, ...]
    """Bottlenecks that match and stand in no diagnosis here; read_entry prints each."""
    also_possible: tuple[str, ...]
    """Those that stay unknown, likewise."""


class RecommendResult(Record):
    """An answer for each kernel of the report, the longest first."""

    summary: str
    kernels: tuple[ShownKernel, ...]
    more: tuple[str, ...]
    """What was left out to keep this short, and how to ask for it."""
    next: tuple[str, ...]
    knowledge: KnowledgeStamp


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
    job: JobState
    result: dict[str, Any] | None
    next: tuple[str, ...]
