"""Defines the measurement records of the database, addressed by a hash of their content."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from kernelkb.model.base import MeasurementId, Name, Record, SessionId, Slug, Target
from kernelkb.model.records.measurement import Disturbance
from kernelkb.model.records.resource_use import ResourceUse
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
