"""Defines what sessions and measured pairs taught: realised shares of gains, minutes, effects.

A gain is the logarithm of a speedup: of a predicted 9x, 3x is half.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from kernelkb.model.base import Name, Record, SessionId, Slug

PRIOR_SHARE = 1.0
"""Share of a predicted gain that is assumed before any case: the model's own prediction."""
PRIOR_CASES = 5.0
"""Weight of the prior, in cases, in ``LearnedFix.calibration``."""


class LearnedFix(Record):
    """The measured and the predicted gain of one fix for one bottleneck on one architecture."""

    fix: Slug
    bottleneck: Slug
    architecture: Name
    """``sm_90`` and so on, or ``cpu``."""
    observed: float | None
    """Realised share of the predicted gain, mean over ``count`` cases; None without a case."""
    calibration: float
    """The share used for predictions: (count · observed + 5) / (count + 5)."""
    interval: tuple[float, float]
    """95 % prediction interval of the next case's share, low and high, with the prior included."""
    count: float
    """Measured cases; a case in which n fixes were applied together counts 1/n."""
    tried: int
    """Times that the fix was applied."""
    measured: int = 0
    """Of those, the ones with a valid speedup, from a bench without interference."""
    succeeded: int
    """Of those, the ones whose whole speedup interval is above 1."""
    success_interval: tuple[float, float]
    """95 % Wilson interval of succeeded ÷ measured, low and high, 0 to 1."""
    falsifier_held: int = 0
    """Cases in which the predicted metric moved as predicted."""
    falsifier_failed: int = 0
    """Cases in which it did not."""
    sessions: tuple[SessionId, ...]


class LearnedPhase(Record):
    """Minutes that one phase of the workflow takes."""

    phase: Name
    count: int
    """Sessions with this phase."""
    minutes: tuple[float, float, float]
    """Prediction for the next session, in minutes: low, point, high; low to high covers 80 %."""
    sessions: tuple[SessionId, ...]


class LearnedCatalogue(Record):
    """The file ``learned.yaml``, which kb lab learn computes from the sessions alone."""

    fixes: tuple[LearnedFix, ...] = ()
    phases: tuple[LearnedPhase, ...] = ()
    sessions: tuple[SessionId, ...] = Field(default=())
    """Sessions that the rows are computed from."""
    forgotten: tuple[SessionId, ...] = ()
    """Sessions that a person excluded."""

    @model_validator(mode="after")
    def _check_unique_rows(self) -> LearnedCatalogue:
        names = [f"{f.architecture}/{f.bottleneck}/{f.fix}" for f in self.fixes]
        names += [phase.phase for phase in self.phases]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} has two rows; keep one, or run kb lab learn")
        return self


class MeasuredCase(Record):
    """One change of one kernel on one GPU."""

    kernel: Name
    """The pair: a folder below ``kernels/zoo/<bottleneck>/``."""
    fix: Slug
    bottleneck: Slug
    """What limited the kernel before."""
    operation: Slug
    device: Slug
    speedup: float = Field(gt=0)
    """Time before ÷ time after."""
    timed_by: Literal["bench", "profiler"]
    state: dict[str, float] = Field(default_factory=dict)
    """Causes and parts of the time before the change; see ``decide.similar``. Empty where it gained
    nothing."""


class MeasuredCatalogue(Record):
    """The file ``measured.yaml``, which benchmarks/zoo writes from the recordings."""

    cases: tuple[MeasuredCase, ...] = ()
