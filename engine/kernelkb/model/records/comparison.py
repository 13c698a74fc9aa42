"""Defines the records of compared measurements, promotions and regression-gate results."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from kernelkb.model.base import MeasurementId, Name, Record, Slug, Target


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
