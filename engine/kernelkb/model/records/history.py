"""Defines what is kept of a kernel: measurements, and attempts with what came of each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from kernelkb.model.base import MeasurementId, Name, Record, SessionId, Slug, Target
from kernelkb.model.records.measurement import Disturbance, ResourceUse, Verdict

AttemptId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""Hash of what the attempt is: the kernel, the variant, its files and flags."""

FileDigest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""Of the content of a file."""

EventKind = Literal["build", "check", "bench", "profile", "recommend", "outcome", "restore", "note"]
"""note: ``found`` is what the author says of the change, after the state was kept."""

ChangeResult = Literal["faster", "slower", "no-gain", "undecided", "failed"]
"""Of a change: faster and slower are confirmed by the interval; no-gain: the interval ends below
1.02; undecided: the benches do not tell; failed: it does not compile, or is wrong."""

Recognition = Literal["said", "unconfirmed", "source", "code", "advice", "guess"]
"""How the fix of a change is known. said: by its author. unconfirmed: its author says so, and
neither the sources nor the machine code show it, or the machine code is the same. source, code: it
was advised, and the sources or the machine code show it. advice: it was advised, and nothing shows
whether it is. guess: it was not named, and sources and code look like it."""

MeasurementKind = Literal["build", "check", "bench", "profile", "tune"]

NOT_HASHED = ("id", "imported")
"""Fields that say nothing of what a record holds."""


class Attempt(Record):
    """One state of a variant. Equal states are one attempt, of any author."""

    id: AttemptId
    kernel: Name
    variant: Slug
    target: Target
    files: dict[str, FileDigest]
    """Digest of each file that the variant is made of, by its path in the project."""
    flags: tuple[str, ...] = ()
    parent: AttemptId | None = None
    """The state before; None for the first."""
    at: AwareDatetime
    said: str | None = None
    """What its author said that the change is."""
    session: SessionId | None = None
    imported: bool = False
    """Whether ``kb lab import`` added it."""


class AdvisedChange(Record):
    """The first fix of a recommendation."""

    bottleneck: Slug
    fix: Slug
    predicted: tuple[float, float, float] | None = None
    """Speedup low, point, high."""
    falsifier: str | None = None
    state: dict[str, float] = Field(default_factory=dict)
    """Causes and parts of the time then; see ``decide.similar``."""


class ChangeOutcome(Record):
    """What a change from one attempt to the next was, and what it gave."""

    parent: AttemptId
    fixes: tuple[Slug, ...] = ()
    """Fixes that the change applies, as far as it was recognised; empty: an unknown change."""
    recognised_by: Recognition | None = None
    lines: tuple[int, ...] = ()
    """Lines of the new source that changed, the first of each place."""
    advised: AdvisedChange | None = None
    """The advice for the parent."""
    bottleneck: Slug | None = None
    """What was found to bind before the change."""
    measured: float | None = None
    """Speedup of the change."""
    interval: tuple[float, float] | None = None
    result: ChangeResult
    why: str | None = None
    """Why it failed, or cannot be decided."""


class AttemptEvent(Record):
    """One thing that was done with an attempt."""

    id: MeasurementId
    attempt: AttemptId
    kernel: Name
    kind: EventKind
    at: AwareDatetime
    origin: str
    """The checkout: a hash of the machine's name and the project's folder."""
    status: Literal["ok", "warning", "failure"] = "ok"
    found: str = ""
    """The result in one line."""
    seconds: float = 0.0
    device: str | None = None
    workload: str | None = None
    measurement: MeasurementId | None = None
    verdict: Verdict | None = None
    candidate_us: float | None = None
    speedup: float | None = None
    """Over the baseline of the bench."""
    interval: tuple[float, float] | None = None
    code: str | None = None
    """Digest of the machine code of a build; None where it is not known."""
    counts: dict[str, float] = Field(default_factory=dict)
    """Instructions of some kinds in the machine code that a bench timed; see ``CodeCount``."""
    task: str | None = None
    """Digest of what judges: kernel.yaml and the reference."""
    advised: AdvisedChange | None = None
    outcome: ChangeOutcome | None = None
    imported: bool = False
    """Whether ``kb lab import`` added it: it was not done here."""


class AttemptTransfer(Record):
    """An attempt as it travels in an export: with its events, and its files if wanted."""

    attempt: Attempt
    events: tuple[AttemptEvent, ...] = ()
    files: dict[FileDigest, str] = Field(default_factory=dict)
    """Content by digest, compressed (zlib) and in base64."""


class SubjectRecord(Record):
    """Everything a measurement depends on: two measurements of one subject differ only by noise."""

    kernel: Name
    variant: Slug
    target: Target
    workload: str
    sources: dict[str, str]
    """Digest of each file that the variant is made of, and of the reference."""
    flags: tuple[str, ...] = ()
    """Compiler flags, with the macros of this configuration."""
    inputs: dict[str, int] = Field(default_factory=dict)
    """Axes of the workload."""
    device: str
    """Name of the GPU or CPU, as the system reports it."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Versions of driver, compiler, torch and operating system."""
    judge: str
    """Version of KernelKB that measured it."""


class Measurement(Record):
    """One result; never changed after it was recorded."""

    id: MeasurementId
    """Hash of everything below."""
    subject_id: MeasurementId
    """Hash of ``subject``."""
    kind: MeasurementKind
    at: AwareDatetime
    subject: SubjectRecord
    session: SessionId | None = None
    verdict: Verdict | None = None
    candidate_us: float | None = None
    baseline: str | None = None
    baseline_sources: dict[str, str] = Field(default_factory=dict)
    """Digest of each file of the variant that was the baseline; empty if it was not a variant."""
    baseline_us: float | None = None
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    timing: Literal["graph", "eager"] | None = None
    status: str | None = None
    """Status of a build, a check or a profile."""
    detail: str | None = None
    metrics: dict[Name, float] = Field(default_factory=dict)
    disturbed_by: Disturbance | None = None
    """As in ``Bench``. None is left out of the hash, so that older records keep their ids."""
    resource_use: ResourceUse | None = None
    """As in ``Bench``; None in records of earlier releases."""
    warnings: tuple[str, ...] = ()
    samples: tuple[tuple[float, float], ...] = ()
    """Microseconds per call of candidate and baseline, one entry for each pair of batches."""
    seconds: float = 0.0
    imported: bool = False
    """Whether ``kb lab import`` added it: it was not measured here."""


class PromotionScope(Record):
    """The kernel, workload, device and target within which measurements are compared."""

    kernel: Name
    workload: str
    device: str
    target: Target


class PairwiseComparison(Record):
    """The speedup of the second measurement over the first, or why there is none."""

    a: MeasurementId
    b: MeasurementId
    ratio: float | None = None
    """Time of ``a`` over time of ``b``: above 1, ``b`` is faster. None if not comparable."""
    interval: tuple[float, float] | None = None
    """95 % bootstrap interval; set whenever ``ratio`` is."""
    by: Literal["direct", "same-baseline"] | None = None
    """direct: timed against each other. same-baseline: each timed against the same baseline."""
    because: str
    """How the ratio was computed, or why there is none."""
    peak_bytes: tuple[int, int] | None = None
    """Peak memory of one call of ``a`` and of ``b``; None where one was not measured, or where
    kernel, workload, device or inputs differ. It depends on no load, so there is no interval."""
    joules: tuple[float, float] | None = None
    """Energy of one call of ``a`` and of ``b``."""
    command: str | None = None
    """The command that measures a ratio, where there is none."""


class Promotion(Record):
    """The measurement with which later ones of its scope are compared, from ``at`` on."""

    place: PromotionScope
    number: int = Field(ge=1, lt=2**31)
    """Number of the promotion in its scope, from 1; the last one applies."""
    measurement: MeasurementId
    previous: MeasurementId | None = None
    at: AwareDatetime
    because: str
    ratio: float | None = None
    """Speedup over the previous one; None for the first."""
    interval: tuple[float, float] | None = None


class RegressionResult(Record):
    """The verdict of the regression gate on one variant in one scope."""

    place: PromotionScope
    variant: Slug
    verdict: Literal["regressed", "promoted", "steady", "incomparable"]
    """steady: the interval shows no change."""
    latest: MeasurementId
    promoted: MeasurementId | None
    """The promoted measurement that it was compared with; None for the first."""
    comparison: PairwiseComparison | None = None
    because: str
