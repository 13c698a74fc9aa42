"""What the tools return: the engine's records, and what to call next."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from kernelkb.model.base import Record
from kernelkb.model.measurement import Bench, Build, Environment, Profile
from kernelkb.model.recommendation import KernelAnswer, KnowledgeStamp

_ID_DIGITS = 12
"""Digits of a record's id in a call: enough for a billion records."""
_MAX_CALL_BYTES = 2000


def format_recommend_call(result: Bench | Profile) -> str:
    """Return the call that decides on a result: by its record, or by its metrics without one."""
    if result.measurement is not None:
        return f"recommend_fix(run={result.measurement[:_ID_DIGITS]!r})"
    metrics = {name: float(f"{value:.6g}") for name, value in result.metrics.items()}
    while len(json.dumps(metrics)) > _MAX_CALL_BYTES:  # some are better than none
        metrics = dict(list(metrics.items())[: len(metrics) // 2])
    return f"recommend_fix(target={result.target!r}, metrics={json.dumps(metrics)})"


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
    """The answer for one kernel, as much as fits."""

    also_matches: list[str]
    """Bottlenecks that match and stand in no diagnosis here; read_entry prints each."""
    also_possible: list[str]
    """Those that stay unknown, likewise."""


class _DescribeInheritedKeys:
    """Adds the docstrings of ``KernelAnswer``: pydantic reads a TypedDict's own, not its base's."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        reference = handler(core_schema)
        shown = handler.resolve_ref_schema(reference)["properties"]
        base = TypeAdapter(list[KernelAnswer], config=Record.model_config).json_schema()
        for name, field in base["$defs"]["KernelAnswer"]["properties"].items():
            if "description" in field:
                shown[name]["description"] = field["description"]
        return reference


class RecommendResult(Record):
    """An answer for each kernel of the report, the longest first."""

    summary: str
    kernels: tuple[Annotated[ShownKernel, _DescribeInheritedKeys], ...]
    more: tuple[str, ...]
    """What was left out to keep this short, and how to ask for it."""
    next: tuple[str, ...]
    knowledge: KnowledgeStamp


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
