"""Defines the records of the database: measurements, comparisons, promotions, gate results."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from kernelkb.model.base import MeasurementId, Name, Record, SessionId, Slug, Target
from kernelkb.model.records.measurement import Disturbance, ResourceUse
from kernelkb.model.records.verdict import Verdict

MeasurementKind = Literal["build", "check", "bench", "profile", "tune"]


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
    at: datetime
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
    number: int
    """Number of the promotion in its scope, from 1; the last one applies."""
    measurement: MeasurementId
    previous: MeasurementId | None = None
    at: datetime
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
