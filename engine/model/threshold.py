"""Limits that conditions refer to by name, and the bibliography they come from."""

from __future__ import annotations

from datetime import date

from pydantic import Field

from kernelkb.model.base import Evidence, GainKind, Name, Record, Slug


class Threshold(Record):
    """A limit on one metric. Projects may override it; every explanation shows which one held."""

    id: Slug
    metric: Name
    value: float
    by_device: dict[Slug, float] = Field(default_factory=dict)
    """Where a device needs another value, that value."""
    evidence: Evidence
    why: str
    sources: tuple[Slug, ...] = Field(min_length=1)


class ThresholdCatalogue(Record):
    """The file ``thresholds.yaml``."""

    thresholds: tuple[Threshold, ...] = Field(min_length=1)


class Realization(Record):
    """How much of a predicted saving is usually realised, for one kind of change."""

    kind: GainKind
    usual: float = Field(ge=0, le=1)
    worst: float = Field(ge=0, le=1)
    evidence: Evidence
    why: str
    sources: tuple[Slug, ...] = Field(min_length=1)


class Weights(Record):
    """Judgements that order answers; they change no verdict and no predicted gain."""

    direct: float = Field(gt=0, le=1)
    """Confidence when a counter measures the mechanism itself."""
    derived: float = Field(gt=0, le=1)
    coarse: float = Field(gt=0, le=1)
    pattern: float = Field(gt=0, le=1)
    effort_5: float = Field(gt=0, le=1)
    """Rank factor of a fix that takes about five minutes; the others likewise."""
    effort_30: float = Field(gt=0, le=1)
    effort_120: float = Field(gt=0, le=1)
    effort_480: float = Field(gt=0, le=1)
    why: str
    sources: tuple[Slug, ...] = Field(min_length=1)


class Calibration(Record):
    """The file ``calibration.yaml``."""

    realised: tuple[Realization, ...] = Field(min_length=1)
    weights: Weights


class Source(Record):
    """Where a claim comes from."""

    id: Slug
    title: str
    section: str | None = None
    url: str | None = None
    read: date


class Bibliography(Record):
    """The file ``sources.yaml``."""

    sources: tuple[Source, ...] = Field(min_length=1)
