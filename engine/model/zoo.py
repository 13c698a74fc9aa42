"""Defines the records of measured pairs: two variants, one change, and what it gave."""

from __future__ import annotations

from pydantic import Field

from kernelkb.model.base import Name, Record, Slug


class VariantRecording(Record):
    """One variant on one GPU: its time, and the metrics of its profile."""

    variant: Slug
    kernel_us: float = Field(gt=0)
    """Median time of one call, from timing."""
    metrics: dict[Name, float]
    """By metric id: what the compiler and Nsight Compute report; empty without a profile."""


class PairRecording(Record):
    """A pair on one GPU; one line of ``kernels/zoo/measured/<device>.jsonl``."""

    kernel: Name
    """The folder below ``kernels/zoo/<bottleneck>/``."""
    device: Slug
    driver: str
    workload: Slug
    speedup: float = Field(gt=0)
    """Time before ÷ time after, from paired batches."""
    interval: tuple[float, float]
    """Of 95 %."""
    before: VariantRecording
    after: VariantRecording
    report: str = ""
    """The compressed binary report, below the folder of reports and the device; empty without."""
    launch: int = 0
    """Index of the launch of ``before`` in it; that of ``after`` follows."""
