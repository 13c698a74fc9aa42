"""Jobs of a process that tries many builds of one variant, and their answers."""

from __future__ import annotations

from typing import Literal, TypedDict

from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    Code,
    Reference,
    Target,
    Tolerances,
)


class TrialJob(TypedDict):
    """Serve trials on one workload until told to stop."""

    mode: Literal["trials"]
    target: Target
    reference: Reference
    tolerances: Tolerances
    case: CaseSpec
    cache_bytes: int
    """Of the last cache; the arrays of the calls take twice as much, up to 16 sets."""


class Trial(TypedDict):
    """Builds to check and to time: one, or several in turns."""

    codes: list[Code]
    best_us: float | None
    """Best time so far; far above it, few samples suffice."""
    budget_s: float
    """For the samples of one build."""
    rounds: int
    """Samples of each build where several are timed in turns; fewer where the budget is used."""


class TrialTimes(TypedDict):
    """Answer to a Trial."""

    status: str
    """``timed``, ``incorrect``, ``refused`` (it returned an error code) or ``unloadable``."""
    detail: str | None
    samples_us: list[list[float]]
    """For each build microseconds of a call; each is a mean over many calls. Empty: not timed."""
