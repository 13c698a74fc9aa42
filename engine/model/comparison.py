"""Two measurements next to each other, and what is promoted because of it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from kernelkb.model.base import Name, Record, Slug, Target
from kernelkb.model.session import MeasurementId


class PromotionScope(Record):
    """Where a number counts: nothing is promoted for one place because of another."""

    kernel: Name
    workload: str
    device: str
    target: Target


class PairwiseComparison(Record):
    """How many times as fast the second measurement is as the first, or why nobody can say."""

    a: MeasurementId
    b: MeasurementId
    ratio: float | None = None
    """Time of ``a`` over time of ``b``: above 1, ``b`` is faster. None where it cannot be said."""
    interval: tuple[float, float] | None = None
    """95 %; there whenever ``ratio`` is."""
    by: Literal["direct", "same-baseline"] | None = None
    """direct: they were timed in turn. same-baseline: each in turn with the same other thing."""
    because: str
    """How the ratio came about, or why there is none."""
    command: str | None = None
    """What would give a ratio, where there is none."""


class Promotion(Record):
    """From ``at`` on, a measurement is what others of its place are held against."""

    place: PromotionScope
    number: int
    """Counts the promotions of a place from 1; the last one is in force."""
    measurement: MeasurementId
    previous: MeasurementId | None = None
    at: datetime
    because: str
    ratio: float | None = None
    """Over the previous one; None for the first."""
    interval: tuple[float, float] | None = None


class RegressionResult(Record):
    """What the ratchet says of one variant in one place."""

    place: PromotionScope
    variant: Slug
    verdict: Literal["regressed", "promoted", "steady", "incomparable"]
    """steady: the interval does not say that anything changed."""
    latest: MeasurementId
    promoted: MeasurementId | None
    """What it was held against; None where it is the first."""
    comparison: PairwiseComparison | None = None
    because: str
