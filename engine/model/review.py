"""What an expert says of a session, and what it changes in the knowledge."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, StringConstraints, field_validator, model_validator

from kernelkb.model.base import Record, Slug
from kernelkb.model.condition import Condition

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

ReviewVerdict = Literal["right", "wrong", "unsure"]


class ThresholdChange(Record):
    """Another value for a threshold, everywhere or on one device."""

    change: Literal["threshold"]
    threshold: Slug
    value: float
    device: Slug | None = None
    """Where it holds; everywhere by default."""
    why: Text


class ConditionChange(Record):
    """A bottleneck's condition made narrower or wider."""

    change: Literal["condition"]
    bottleneck: Slug
    only_if: Condition | None = None
    """What must hold as well."""
    also_if: Condition | None = None
    """What suffices by itself."""
    why: Text

    @model_validator(mode="after")
    def _require_one_condition(self) -> Self:
        if (self.only_if is None) == (self.also_if is None):
            raise ValueError("give exactly one of only_if and also_if")
        return self

    @property
    def added_condition(self) -> Condition:
        """The condition that comes in."""
        found = self.also_if if self.only_if is None else self.only_if
        if found is None:
            raise AssertionError("refused when it was made")
        return found


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
    """A new way of working, out of what a session proposed."""

    change: Literal["pattern"]
    candidate: str | None = None
    """As the session has it; None where the reviewer thought of it."""
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


class _FormBlock(Record):
    """A block of a form; a list that was emptied has nothing in it."""

    @field_validator("corrections", "breaks", mode="before", check_fields=False)
    @classmethod
    def _empty_tuple_for_null(cls, value: object) -> object:
        return () if value is None else value


class Judgement(_FormBlock):
    """What a form says of one decision of the session."""

    decision: int = Field(ge=1)
    """Its number in the form."""
    verdict: ReviewVerdict | None = None
    """None until somebody has judged it."""
    should_have_been: FixChoice | None = None
    why: Text | None = None
    corrections: tuple[Correction, ...] = ()
    comment: Text | None = None

    @model_validator(mode="after")
    def _check_reasoning(self) -> Self:
        if self.verdict == "wrong" and self.why is None:
            raise ValueError("a verdict of wrong needs its why")
        if self.should_have_been is not None and self.verdict not in ("wrong", "unsure"):
            raise ValueError("should_have_been needs a verdict of wrong or unsure")
        return self


class Remarks(_FormBlock):
    """What a form says of the session as a whole."""

    corrections: tuple[Correction, ...] = ()
    breaks: tuple[str, ...] = ()
    """Cases that the corrections may break, as ``kb session review`` names them."""
    comment: Text | None = None


class ReviewForm(Record):
    """What a person filled in."""

    session: str
    judgements: tuple[Judgement, ...] = ()
    remarks: Remarks = Remarks()


class Review(Record):
    """What a reviewer said of one decision, for learning."""

    bottleneck: Slug
    fix: Slug
    applied_as: str | None = None
    """The variant that tells two equal decisions of a session apart."""
    verdict: ReviewVerdict
    should_have_been: FixChoice | None = None
    reviewer: Reviewer
    why: Text | None = None
    comment: Text | None = None


class AcceptedReview(Record):
    """One file below ``reviews/``: an accepted form, with whose it is."""

    session: str
    reviewer: Reviewer
    date: date
    """When it was accepted first."""
    verdicts: tuple[Review, ...] = ()
    corrections: tuple[Correction, ...] = ()
    breaks: tuple[str, ...] = ()
    """Cases of the knowledge that need not hold any more."""
    comment: Text | None = None


class KnowledgeChange(Record):
    """One entry of the knowledge as it was and as a review made it."""

    kind: Literal["threshold", "bottleneck", "fix", "pattern"]
    id: Slug
    field: str
    """What of it; a device stands behind a dot: ``value.h100-sxm``."""
    was: float | str | tuple[str, ...] | Condition | None
    """None where there was nothing."""
    now: float | str | tuple[str, ...] | Condition
    session: str
    reviewer: Reviewer
    date: date
    why: Text


class ReviewPreview(Record):
    """What accepting a form would do, or did."""

    session: str
    form: str
    """Its path."""
    decisions: int
    """How many the session has."""
    verdicts: tuple[Review, ...] = ()
    changes: tuple[KnowledgeChange, ...] = ()
    breaks: tuple[str, ...] = ()
    """Cases that do not hold any more, which the form accepts."""
    problems: tuple[str, ...] = ()
    """Why it cannot be accepted: ``path:line:column: field: message``."""
    checks: bool = False
    """Whether ``kb check`` has nothing to say of the knowledge with it."""
