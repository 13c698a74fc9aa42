"""Defines the records of conditions on metrics; ``kernelkb.decide.conditions`` evaluates them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from kernelkb.model.base import Quantity, Record, Slug

Op = Literal["<", "<=", ">", ">=", "==", "!="]


class Comparison(Record):
    """A comparison of one metric with a number, another quantity, or a threshold."""

    metric: Quantity
    op: Op
    value: float | Quantity | None = None
    threshold: Slug | None = None

    @model_validator(mode="after")
    def _require_one_limit(self) -> Self:
        if (self.value is None) == (self.threshold is None):
            raise ValueError("give exactly one of value and threshold")
        return self


class All(Record):
    """True if every part is true; false if any part is false; otherwise unknown."""

    all: tuple[Condition, ...] = Field(min_length=1)


class Any(Record):
    """True if any part is true; false if every part is false; otherwise unknown."""

    any: tuple[Condition, ...] = Field(min_length=1)


class Not(Record):
    """The negation of a condition; unknown stays unknown."""

    negated: Condition = Field(alias="not")


def _find_condition_tag(value: object) -> str:
    keys = set(value) if isinstance(value, dict) else {type(value).__name__.lower()}
    for word in ("all", "any", "not"):
        if word in keys:
            return word
    return "comparison"


Condition = Annotated[
    Annotated[All, Tag("all")]
    | Annotated[Any, Tag("any")]
    | Annotated[Not, Tag("not")]
    | Annotated[Comparison, Tag("comparison")],
    Discriminator(_find_condition_tag),
]

for _model in (All, Any, Not):
    _model.model_rebuild()


def iter_comparisons(condition: Condition) -> Iterator[Comparison]:
    """Yield every comparison of a condition, left to right."""
    match condition:
        case All(all=parts) | Any(any=parts):
            for part in parts:
                yield from iter_comparisons(part)
        case Not(negated=inner):
            yield from iter_comparisons(inner)
        case Comparison():
            yield condition
