"""The comparison of two measurements, promotions, and results of the regression gate."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from kernelkb.model.base import Name, Record, Slug, Target
from kernelkb.model.session import MeasurementId


class PromotionScope(Record):
    """Kernel, workload, device and target: measurements are promoted and compared within them."""

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
    command: str | None = None
    """The command that measures a ratio, where there is none."""


class Promotion(Record):
    """From ``at`` on, the measurement that others of its place are compared with."""

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
    """The verdict of the regression gate on one variant in one place."""

    place: PromotionScope
    variant: Slug
    verdict: Literal["regressed", "promoted", "steady", "incomparable"]
    """steady: the interval shows no change."""
    latest: MeasurementId
    promoted: MeasurementId | None
    """The promoted measurement that it was compared with; None for the first."""
    comparison: PairwiseComparison | None = None
    because: str
