"""Defines what experience adds: what fixes gave in sessions, and experts' reviews.

A gain is the logarithm of a speedup: of a predicted 9x, 3x is half.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, StringConstraints, field_validator, model_validator

from kernelkb.model.base import Name, Record, SessionId, Slug
from kernelkb.model.entries.bottleneck import Condition

PRIOR_SHARE = 1.0
"""Share of a predicted gain that is assumed before any case: the model's own prediction."""
PRIOR_CASES = 5.0
"""Weight of the prior, in cases, in ``LearnedFix.calibration``."""

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

Reviewer = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$"
    ),
]
"""A person's name, in one line."""

FixChoice = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*/[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=121
    ),
]
"""``bottleneck/fix``."""


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


class ThresholdChange(Record):
    """Another value for a threshold, everywhere or on one device."""

    change: Literal["threshold"]
    threshold: Slug
    value: float
    device: Slug | None = None
    """Where it applies; everywhere by default."""
    why: Text


class ConditionChange(Record):
    """A bottleneck's condition made narrower or wider."""

    change: Literal["condition"]
    bottleneck: Slug
    only_if: Condition | None = None
    """Required in addition to the present condition."""
    also_if: Condition | None = None
    """Sufficient by itself."""
    why: Text

    @model_validator(mode="after")
    def _require_one_condition(self) -> Self:
        if (self.only_if is None) == (self.also_if is None):
            raise ValueError("give exactly one of only_if and also_if")
        return self

    @property
    def added_condition(self) -> Condition:
        """The condition that is added."""
        condition = self.also_if if self.only_if is None else self.only_if
        assert condition is not None  # noqa: S101 the validator refuses a change without one
        return condition


class FixChange(Record):
    """A fix that moves in the order in which a bottleneck offers its fixes."""

    change: Literal["fix"]
    bottleneck: Slug
    fix: Slug
    move: Literal["up", "down", "first", "last", "withdraw"]
    """``first`` and ``last`` also add a fix that the bottleneck does not offer yet."""
    why: Text


class WhenNotChange(Record):
    """One more situation in which a fix is wrong."""

    change: Literal["when-not"]
    fix: Slug
    when_not: Text
    why: Text


class PatternChange(Record):
    """A new way of working, from a session's pattern candidate or the reviewer's own."""

    change: Literal["pattern"]
    candidate: str | None = None
    """Text of the session's candidate; None for a pattern of the reviewer's own."""
    id: Slug
    title: Text
    problem: Text
    practice: Text
    triggers: tuple[Text, ...] = Field(min_length=1)
    steps: tuple[Text, ...] = Field(min_length=1)
    bottlenecks: tuple[Slug, ...] = ()
    refines: Slug | None = None
    why: Text


Correction = Annotated[
    ThresholdChange | ConditionChange | FixChange | WhenNotChange | PatternChange,
    Discriminator("change"),
]


class Review(Record):
    """A reviewer's verdict on one decision."""

    bottleneck: Slug
    fix: Slug
    applied_as: str | None = None
    """The variant; distinguishes two decisions of a session with the same bottleneck and fix."""
    verdict: Literal["right", "wrong", "unsure"]
    should_have_been: FixChoice | None = None
    why: Text | None = None
    comment: Text | None = None

    @model_validator(mode="after")
    def _check_reasoning(self) -> Self:
        if self.verdict == "wrong" and self.why is None:
            raise ValueError("a verdict of wrong needs its why")
        if self.should_have_been is not None and self.verdict == "right":
            raise ValueError("should_have_been needs a verdict of wrong or unsure")
        return self


class AcceptedReview(Record):
    """One file ``reviews/<session>.yaml`` of a knowledge folder; its corrections apply."""

    session: str
    reviewer: Reviewer
    date: date
    """Of several reviews, later ones are applied to the result of earlier ones."""
    verdicts: tuple[Review, ...] = ()
    corrections: tuple[Correction, ...] = ()
    breaks: tuple[str, ...] = ()
    """Cases of the knowledge that may fail from now on, by their names in ``kb session review``."""
    comment: Text | None = None

    @field_validator("verdicts", "corrections", "breaks", mode="before")
    @classmethod
    def _read_null_as_empty(cls, value: object) -> object:
        return () if value is None else value  # YAML reads a list with comments only as null


class KnowledgeChange(Record):
    """One entry of the knowledge before and after a correction."""

    kind: Literal["threshold", "bottleneck", "fix", "pattern"]
    id: Slug
    field: str
    """The changed field; a device follows a dot: ``value.h100-sxm``."""
    was: float | str | tuple[str, ...] | Condition | None
    """None for a new entry."""
    now: float | str | tuple[str, ...] | Condition
    session: str
    reviewer: Reviewer
    date: date
    why: Text


class ReviewPreview(Record):
    """A check of a review file: its changes to the knowledge, and the problems with it."""

    session: str
    file: str
    decisions: int
    """Count of the session's decisions."""
    verdicts: tuple[Review, ...] = ()
    changes: tuple[KnowledgeChange, ...] = ()
    breaks: tuple[str, ...] = ()
    """Broken cases that the file accepts."""
    problems: tuple[str, ...] = ()
    """``path:line:column: field: message``; a file with problems should not be committed."""
    checks: bool = False
    """Whether ``kb check`` passes on the knowledge with the file."""
