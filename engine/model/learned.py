"""What sessions taught: how far predictions are to be believed, and how long phases take."""

from __future__ import annotations

from pydantic import Field, model_validator

from kernelkb.model.base import GainKind, Name, Record, Slug
from kernelkb.model.session import SessionId


class LearnedFix(Record):
    """A fix for a bottleneck on an architecture: what it gave, next to what was predicted."""

    fix: Slug
    bottleneck: Slug
    architecture: Name
    """``sm_90``, or ``cpu``."""
    kind: GainKind
    prior: float
    """The share of an estimated saving that calibration.yaml takes for granted."""
    observed: float | None
    """The share that was realised, in the mean over ``count`` cases; None without a case."""
    calibration: float
    """(count · observed + 5 · prior) / (count + 5)."""
    interval: tuple[float, float]
    """Where the share of the next case lies, 95 %: predictive, with the prior's weight in it."""
    count: float
    """Measured cases; one where several fixes were applied together counts as a part."""
    tried: int
    measured: int = 0
    """Of those that were tried, the ones with a speedup that nobody disturbed."""
    succeeded: int
    """Measured cases whose whole interval lay above 1."""
    success_interval: tuple[float, float]
    """Of succeeded ÷ measured, 95 % (Wilson)."""
    falsifier_held: int = 0
    falsifier_failed: int = 0
    sessions: tuple[SessionId, ...]


class LearnedPhase(Record):
    """How long a phase takes, over the sessions that had it."""

    phase: Name
    count: int
    minutes: tuple[float, float, float]
    """Of the next session: low, point, high, 80 %."""
    sessions: tuple[SessionId, ...]


class LearnedCatalogue(Record):
    """The file ``learned.yaml``. It follows from the sessions alone, so anybody can check it."""

    fixes: tuple[LearnedFix, ...] = ()
    phases: tuple[LearnedPhase, ...] = ()
    sessions: tuple[SessionId, ...] = Field(default=())
    """All that counted: recorded, and not forgotten."""
    forgotten: tuple[SessionId, ...] = ()
    """Sessions that a person took out."""

    @model_validator(mode="after")
    def _check_unique_rows(self) -> LearnedCatalogue:
        names = [f"{f.architecture}/{f.bottleneck}/{f.fix}" for f in self.fixes]
        names += [phase.phase for phase in self.phases]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} stands twice; keep one row, or run kb learn")
        return self
