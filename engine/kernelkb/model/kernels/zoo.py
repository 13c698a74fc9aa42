"""Defines the records of measured pairs: two variants, one change, and what it gave."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelkb.model.base import Name, Record, Slug


class VariantRecording(Record):
    """One variant on one GPU: its time, and the metrics of its profile."""

    variant: Slug
    kernel_us: float = Field(gt=0)
    """Time of one call."""
    metrics: dict[Name, float]
    """By metric id: what the compiler and Nsight Compute report; empty without a profile."""
    ncu_rules: dict[str, float] = Field(default_factory=dict)
    """By rule of Nsight Compute, the share of the kernel's time that it says a fix would remove."""


class PairRecording(Record):
    """A pair on one GPU; one line of ``kernels/zoo/measured/<device>.jsonl``."""

    kernel: Name
    """The folder below ``kernels/zoo/<bottleneck>/``."""
    device: Slug
    driver: str
    workload: Slug
    speedup: float = Field(gt=0)
    """Time before ÷ time after, from paired batches."""
    interval: tuple[float, float] | None = None
    """Of 95 %; None where the times are the profiler's."""
    timed_by: Literal["bench", "profiler"] = "bench"
    """profiler: durations under Nsight Compute, one launch each, until the pair is timed."""
    before: VariantRecording
    after: VariantRecording
    report: str = ""
    """The compressed binary report, below the folder of reports and the device; empty without."""
    launch: int = 0
    """Index of the launch of ``before`` in it; that of ``after`` follows."""


class ScoreRow(Record):
    """How often one predictor was right, on one set of pairs."""

    predictor: str
    pair_count: int
    """Pairs with a flaw that a change cured."""
    first_cause: int
    """Pairs whose first cause was a correct one."""
    cause_in_three: int
    within_14: int
    """Pairs whose told gain was within a factor of 1.4 of the measured one."""
    within_2: int
    median_error: float
    """Median factor between told and measured gain, at least 1."""
    held_50: float | None = None
    """Share of the intervals for 50 % that held the measured gain; None without intervals. Their
    width is fitted to the pairs of other operations."""
    held_80: float | None = None
    held_95: float | None = None


class AdviceError(Record):
    """A pair for which more was promised than the kernel or the change can give."""

    kernel: Name
    told: float
    measured: float


class WorstPrediction(Record):
    """One of the predictions with the largest errors."""

    kernel: Name
    bottleneck: Slug | None
    """The first cause that was named."""
    fix: Slug
    told: float
    measured: float


class LineScoreRow(Record):
    """How often the first line was right, for the flaws of one cause."""

    bottleneck: Slug
    count: int
    right: int
    """First lines within two of the flaw, or of what it waits for."""


class LineMiss(Record):
    """A flaw whose line was not the first one told."""

    kernel: Name
    bottleneck: Slug
    wanted: int
    told: int | None
    reason: str | None
    """Why no line was told."""


class LineScore(Record):
    """What reports tell of planted flaws: the first cause, and the first line of the true one."""

    cause_count: int
    """Flaws with a report."""
    causes_right: int
    """Of those, the ones whose first cause, with what the machine code shows, is a planted one."""
    rows: tuple[LineScoreRow, ...]
    producer_count: int
    """Flaws that are a wait for something with a line of its own."""
    producers_right: int
    misses: tuple[LineMiss, ...]


class Score(Record):
    """The result of ``kb score``."""

    rows: tuple[ScoreRow, ...]
    roof_count: int
    """Pairs at their roof."""
    roof_alarms: tuple[AdviceError, ...]
    """Of those, the ones that were promised more than 1.2x."""
    no_gain_count: int
    """Pairs whose change gains nothing or makes the kernel slower."""
    no_gain_advised: tuple[AdviceError, ...]
    """Of those, the ones whose change was the first fix told, with more than 1.2x."""
    falsifier_count: int
    """Pairs whose correct cause came with a falsifier."""
    falsifiers_held: int
    """Of those, the ones that held after the change."""
    falsifiers_true_before: int
    """Falsifiers of any diagnosis that held before the change."""
    worst: tuple[WorstPrediction, ...]
    profiler_timed: int
    """Pairs whose gain is a ratio of profiler durations, since they were not timed yet."""
    devices: tuple[Slug, ...]
    lines: LineScore | None = None
    """None without reports."""
