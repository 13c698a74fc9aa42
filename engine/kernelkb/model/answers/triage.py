"""Defines the results of ``kb triage``, and of variants that are timed one change at a time."""

from __future__ import annotations

from typing import Literal

from kernelkb.model.answers.recommendation import PredictedSpeedup, PrintedAnswer
from kernelkb.model.base import Name, Record, Slug, Target
from kernelkb.model.records.measurement import (
    Bench,
    Build,
    Check,
    FailureVerdict,
    Machine,
    Profile,
)
from kernelkb.model.records.session import Decision, Step


class VariantResult(Record):
    """One variant's results; None for steps that were not reached."""

    variant: Slug
    build: Build | None = None
    check: Check | None = None
    bench: Bench | None = None
    profile: Profile | None = None
    answer: PrintedAnswer | None = None


class FixOutcome(Record):
    """A variant with recommended fixes, measured against the variant without them."""

    before: Slug
    """Variant without the fixes."""
    after: Slug
    """Variant with the fixes."""
    fixes: tuple[Slug, ...]
    predicted: PredictedSpeedup | None
    """Predicted speedup; None where there was no estimate."""
    measured: float | None
    """Time of ``before`` ÷ time of ``after``; both were timed against the same baseline."""
    interval: tuple[float, float] | None
    """Confidence interval of ``measured``, low and high."""
    confirmed: bool | None
    """Whether the whole interval is above 1; None without an interval."""
    cause: Literal["confirmed", "refuted"] | None = None
    """Whether the cause was right: the falsifier of the first diagnosis held, or failed. None where
    it was not measured."""
    gain: Literal["below", "inside", "above"] | None = None
    """Where the measured speedup lies to the predicted interval; None without one of them."""
    unmeasured: str | None = None
    """Why ``measured`` is None although both were timed."""


class Triage(Record):
    """The results of one ``kb triage``."""

    kernel: Name
    target: Target
    machine: Machine | None
    steps: tuple[Step, ...]
    examined: tuple[VariantResult, ...] = ()
    followed: FixOutcome | None = None
    """The outcome of the recommended fixes; None where no variant applies them."""
    decisions: tuple[Decision, ...] = ()
    session: str | None = None
    """Session file that the steps were appended to; None without one."""
    outcome: Literal["done", "stopped", "could-not-run"]
    """stopped: a gate failed or its verdict is stop. could-not-run: the machine lacks something."""
    next: tuple[str, ...] = ()
    """Steps in their order: shell commands, to be run as they are, and sentences."""
    seconds: float
    """Wall-clock time of the whole command."""


ChangeVerdict = Literal["faster", "slower", "no-difference", "undecided"]
"""faster, slower: the whole interval is more than 1 % on that side of 1. no-difference: it is
within 5 % of 1. undecided: it is neither, or something disturbed a bench."""


class TimedChange(Record):
    """One variant, timed against the base as one change."""

    variant: Slug
    applies: tuple[Slug, ...] = ()
    """Fixes that it applies and the base does not."""
    verdict: ChangeVerdict | FailureVerdict
    ratio: float | None = None
    """Time of the base over its time: above 1 it is faster."""
    interval: tuple[float, float] | None = None
    detail: str | None = None
    """Why it has no time, or no verdict."""
    cure: str | None = None
    attempt: str | None = None
    """Its state in the log."""
    last_bench: Bench | None = None
    """Of its last round, where the baseline is the base; None where it was not timed."""
    unrecorded: str | None = None


class BundleSplit(Record):
    """What the parts of a bundle give alone, beside what it gives whole; ratios against the base.

    ``only_together`` is what the bundle gives beyond the product of its parts: below 1 they take
    from each other.
    """

    variant: Slug
    parts: tuple[Slug, ...]
    bundle: tuple[float, float, float]
    """Point, low, high."""
    product: tuple[float, float, float]
    only_together: tuple[float, float, float]


class ChangeTable(Record):
    """Variants that were timed against one base, in rounds, so that drift hits all alike."""

    kernel: Name
    base: Slug
    target: Target
    workload: Slug
    base_us: float | None
    """Median over the rounds; None where nothing was timed."""
    rounds: int
    changes: tuple[TimedChange, ...]
    """As they were named."""
    bundles: tuple[BundleSplit, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float
