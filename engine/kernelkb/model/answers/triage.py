"""Defines the result of ``kb triage``: each variant's build, check, bench, profile and fixes."""

from __future__ import annotations

from typing import Literal

from kernelkb.model.answers.recommendation import PredictedSpeedup, PrintedAnswer
from kernelkb.model.base import Name, Record, Slug, Target
from kernelkb.model.records.measurement import Bench, Build, Check, Machine, Profile
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
