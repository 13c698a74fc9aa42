"""Result types of the tools: the engine's records plus summary and next calls."""

from __future__ import annotations

import json
from typing import Any, Literal

from kernelkb.model.answers.recommendation import KnowledgeStamp, PrintedAnswer
from kernelkb.model.base import Record, Target
from kernelkb.model.kernels.tuning import (
    ConfirmedConfiguration,
    Macro,
    Rejection,
    TrialStatus,
)
from kernelkb.model.records.history import Attempt
from kernelkb.model.records.measurement import Bench, Build, Profile

_ID_DIGITS = 12
"""Digits of a record's id in a call: enough for a billion records."""
_MAX_CALL_BYTES = 2000


def format_recommend_call(result: Bench | Profile) -> str:
    """Return the recommend_fix call for a result: by record id, else by its metrics."""
    if result.measurement is not None:
        return f"recommend_fix(run={result.measurement[:_ID_DIGITS]!r})"
    metrics = {name: float(f"{value:.6g}") for name, value in result.metrics.items()}
    while len(json.dumps(metrics)) > _MAX_CALL_BYTES:  # halve until it fits
        metrics = dict(list(metrics.items())[: len(metrics) // 2])
    return f"recommend_fix(target={result.target!r}, metrics={json.dumps(metrics)})"


JobStatus = Literal["running", "done", "failed", "cancelled"]


class JobState(Record):
    """A job that outlived its call; its handle is kept for an hour after it ends."""

    id: str
    tool: str
    call: str
    """The call that started it; can be repeated as it is."""
    status: JobStatus
    now: str
    """Current activity."""
    elapsed_s: float
    expected_s: float | None
    """Median duration of the same call before, in seconds; null for a first call."""
    error: str | None = None
    """The tool's message if it failed."""


class LongResult(Record):
    """Result of a tool whose work may outlive its call: then ``job`` is set, the rest null.

    Fields that such a tool adds have no default, but for one that most calls lack.
    """

    summary: str
    next: tuple[str, ...]
    job: JobState | None = None
    left_out: str | None = None
    """What was cut for length, and the command that shows it."""


class SearchHit(Record):
    """One search hit."""

    kind: str
    id: str
    title: str
    score: float
    """Relevance within this answer; higher is better."""


class SearchResult(Record):
    """Search hits, best first."""

    summary: str
    hits: tuple[SearchHit, ...]
    next: tuple[str, ...]
    needs: str | None = None
    """What only the caller can bring for the step after that; null where ``next`` is enough."""


class EntryResult(Record):
    """One entry, or the list of a kind; one page of it."""

    summary: str
    entry: dict[str, Any] | None
    """Fields in their order; null for a list."""
    entries: tuple[dict[str, Any], ...] | None
    """Ids and titles; null for an entry."""
    cursor: str | None
    """Cursor of the next page; null on the last."""
    next: tuple[str, ...]
    needs: str | None = None


class ShownKernel(PrintedAnswer):
    """The answer for one kernel, trimmed to fit."""

    also_matches: list[str]
    """Matching bottlenecks without a diagnosis here; read_entry prints each."""
    also_possible: list[str]
    """Undecided bottlenecks, likewise."""


class RecommendResult(Record):
    """An answer for the longest kernel of the report, or for a log."""

    summary: str
    table: tuple[str, ...] = ()
    """A row a kernel."""
    kernels: tuple[ShownKernel, ...]
    """The longest; empty for a log."""
    symptoms: tuple[dict[str, Any], ...] = ()
    """Known failures in the log, errors first, each with cause and cure."""
    log: dict[str, Any] | None = None
    """Of a log: its first error line, and how much of it was read."""
    more: tuple[str, ...]
    """What was cut, and how to ask for it."""
    next: tuple[str, ...]
    needs: str | None = None
    knowledge: KnowledgeStamp


class LimitsResult(Record):
    """What a launch or some work can reach on a GPU."""

    summary: str
    occupancy: dict[str, Any] | None
    """As ``kb occupancy --json`` prints it; null without threads and registers."""
    roofline: dict[str, Any] | None
    """As ``kb roofline --json`` prints it; null without bytes and flop."""
    next: tuple[str, ...]
    needs: str | None = None


class RestoredState(Record):
    """An attempt that was written back before the build."""

    attempt: Attempt
    kept: str | None
    """Id under which the files that were there are kept; null if there were none, or the same."""
    written: tuple[str, ...]
    """Files that changed, by their path in the project."""
    flags_differ: bool
    """Whether kernel.yaml, which is not written, has other flags now."""
    unrecorded: str | None = None
    """Why the history has no entry of it."""


class BuildResult(LongResult):
    """A compiled variant, or the compiler's first error: ``build.error`` and ``build.cure``."""

    build: Build | None
    """Null while ``job`` is running, and where ``setup`` left something to edit."""
    setup: dict[str, Any] | None = None
    """What ``file`` or ``add_from`` wrote, and what is left to fill in; null without them."""
    restored: RestoredState | None = None
    """What was written back; null without ``restore``, and while ``job`` is running."""


class BenchResult(LongResult):
    """Times in microseconds, valid only with a valid ``bench.verdict``."""

    bench: Bench | None
    """Null while ``job`` is running, and for a problem of ComputeEval."""
    problem: dict[str, Any] | None = None
    """Of a problem of ComputeEval: whether it passes its own test."""


class ProfileResult(LongResult):
    """Explaining metrics, or the bench result that stopped the profile, or a running job."""

    profile: Profile | None
    """Null while ``job`` is running, and for a program."""
    stopped_by: Bench | None
    program: dict[str, Any] | None = None
    """Of a program: what comes first, and its longest kernels, each with cause and change."""


class TuningSummary(Record):
    """What a search found. Its single trials stand in the file ``journal``, a line each."""

    kernel: str
    variant: str
    target: Target
    workload: str
    device: str
    combination_count: int
    """Of all values, feasible or not."""
    feasible_count: int
    trial_counts: dict[TrialStatus, int]
    """Trials by outcome."""
    resumed_count: int
    """Trials of earlier runs, which were not repeated."""
    rejections: tuple[Rejection, ...] = ()
    """Trials that were not timed, by reason; the most frequent first."""
    confirmed: tuple[ConfirmedConfiguration, ...]
    """Fastest first, timed again in turns; empty if nothing could be timed."""
    default: dict[Macro, int]
    """The default configuration; empty: the variant without macros."""
    default_us: float | None
    """Of the default configuration, in the same turns; null: gains are over the slowest one."""
    bench: Bench | None
    """The judge's verdict on the fastest one, against the kernel's rivals."""
    importance: dict[Macro, float]
    """What decides: share of each tunable alone in the spread of the predicted times."""
    measurement: str | None = None
    """Id of the record of the winner, with which the next search begins."""
    unrecorded: str | None = None
    """Why the history or the open session has no entry of it."""
    seconds: float
    device_s: float
    """Time on the device."""
    journal: str


class TuneResult(LongResult):
    """The fastest configurations of a variant, and what they gain over its default one."""

    tuning: TuningSummary | None
    """Null while ``job`` is running."""


class SessionResult(Record):
    """Where work stands, or where a retrospective was appended."""

    summary: str
    session: str | None
    """Its id; null where none is open."""
    brief: str | None
    """Where work stands, in at most 2,000 bytes; null after log and close."""
    file: str | None
    """The file that was written; null after start."""
    next: tuple[str, ...]
    needs: str | None = None


class JobResult(Record):
    """A job and, once done, its tool's result: the same object as without a job."""

    summary: str
    job: JobState | None
    """Null without an id."""
    jobs: tuple[JobState, ...] = ()
    """Without an id: this server's jobs, newest first."""
    result: dict[str, Any] | None
    next: tuple[str, ...]
