"""Defines the records of thresholds, rank weights and sources."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field

from kernelkb.model.base import Evidence, Name, Record, Slug


class Threshold(Record):
    """A named limit of one metric. Projects may override it; explanations show the one used."""

    id: Slug
    metric: Name
    value: float
    by_device: dict[Slug, float] = Field(default_factory=dict)
    """Value by device id, for devices that need another one."""
    evidence: Evidence
    why: str
    sources: tuple[Slug, ...] = Field(min_length=1)


class ThresholdCatalogue(Record):
    """The file ``thresholds.yaml``."""

    thresholds: tuple[Threshold, ...] = Field(min_length=1)


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

    weights: Weights


WithoutUrl = Literal[
    "own-measurement",
    "own-derivation",
    "own-judgement",
    "session",
    "many-addresses",
    "unpublished",
    "address-unknown",
]
"""Why a source has no address. own-measurement: timed, counted or compiled by the authors.
many-addresses: many public pages, none of which stands for all. address-unknown: public, and its
address was not written down when it was read."""


class Source(Record):
    """One document or session from which claims of the knowledge come."""

    id: Slug
    title: str
    section: str | None = None
    """What of it was used."""
    url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+\.[^\s]+$")
    """Its address; None only with ``without_url``."""
    without_url: WithoutUrl | None = None
    """Why it has no address; None with one."""
    read: date
    """The day on which it was last looked at."""


class Bibliography(Record):
    """The file ``sources.yaml``."""

    sources: tuple[Source, ...] = Field(min_length=1)
