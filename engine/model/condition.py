"""Conditions over metrics, as data. Evaluation is three-valued and lives in kernelkb.decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from kernelkb.model.base import Quantity, Record, Slug

Op = Literal["<", "<=", ">", ">=", "==", "!="]


class Comparison(Record):
    """A leaf: one metric against a number, another quantity, or a threshold."""

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
    """True when every part is true; false as soon as one is false."""

    all: tuple[Condition, ...] = Field(min_length=1)


class Any(Record):
    """True as soon as one part is true; false when every part is false."""

    any: tuple[Condition, ...] = Field(min_length=1)


class Not(Record):
    """Turns true and false around; unknown stays unknown."""

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
    """Yield every leaf of a condition, left to right."""
    match condition:
        case All(all=parts) | Any(any=parts):
            for part in parts:
                yield from iter_comparisons(part)
        case Not(negated=inner):
            yield from iter_comparisons(inner)
        case Comparison():
            yield condition
