"""The whole loop on one kernel: what was examined, what was recommended, what came of it."""

from __future__ import annotations

from typing import Literal

from kernelkb.model.base import Name, Record, Slug, Target
from kernelkb.model.measurement import Bench, Build, Check, Machine, Profile
from kernelkb.model.recommendation import KernelAnswer, PredictedSpeedup
from kernelkb.model.session import Decision, Step


class VariantResult(Record):
    """One variant, as far as it got."""

    variant: Slug
    build: Build | None = None
    check: Check | None = None
    bench: Bench | None = None
    profile: Profile | None = None
    answer: KernelAnswer | None = None


class FixOutcome(Record):
    """A variant that applies what was recommended, measured against the one it improves on."""

    before: Slug
    after: Slug
    fixes: tuple[Slug, ...]
    predicted: PredictedSpeedup | None
    measured: float | None
    """Speedup of ``after`` over ``before``; both were timed next to the same baseline."""
    interval: tuple[float, float] | None
    confirmed: bool | None
    """The whole interval lies above 1."""
    unmeasured: str | None = None
    """Why there is no speedup of one over the other, although both were timed."""


class Triage(Record):
    """What ``kb triage`` found."""

    kernel: Name
    target: Target
    machine: Machine | None
    steps: tuple[Step, ...]
    examined: tuple[VariantResult, ...] = ()
    followed: FixOutcome | None = None
    decisions: tuple[Decision, ...] = ()
    session: str | None = None
    """File that the record was appended to."""
    outcome: Literal["done", "stopped", "could-not-run"]
    """stopped: a gate failed or says stop; could-not-run: the machine lacks something."""
    seconds: float
