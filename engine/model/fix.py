"""One change to a kernel, small enough to be measured alone."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelkb.model.base import Record, Slug, Target
from kernelkb.model.condition import Condition


class Fix(Record):
    """What to do, when not to, and what it costs."""

    id: Slug
    do: str
    before: str
    after: str
    when_not: str | None
    cost_min: Literal[5, 30, 120, 480]
    """Minutes for somebody who has done it before, as one of four buckets."""
    risk: Literal["low", "medium", "high"]
    risk_note: str | None = None
    targets: tuple[Target, ...]
    applies: Condition | None = None
    """Offered unless this is false; what cannot be known keeps the offer."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class FixFamily(Record):
    """One file below ``fixes/``."""

    family: Slug
    fixes: tuple[Fix, ...] = Field(min_length=1)
