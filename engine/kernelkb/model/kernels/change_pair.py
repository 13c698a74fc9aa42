"""Defines two variants that differ by one change, and where the flaw stands in the source."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelkb.model.base import Record, Slug


class FlawPlace(Record):
    """Where a flaw lies in the source of ``before``, told from the code alone."""

    line: int = Field(gt=0)
    text: str
    """Of that line."""
    also: tuple[int, ...] = ()
    """Lines that are as right."""
    producers: tuple[int, ...] = ()
    """Where the flaw is a wait: the lines of what is waited for."""


class Pair(Record):
    """Two variants that differ by one change, whose effect was measured (``kernels/zoo``)."""

    before: Slug = "before"
    """Id of the variant without the change."""
    after: Slug = "after"
    """Id of the variant with it."""
    kind: Literal["flaw", "two-flaws", "at-roof", "no-gain"]
    """flaw: the change cures the cause. two-flaws: it cures two that hide each other. at-roof: a
    sensible change that gains nothing, since ``before`` is at its roof. no-gain: a change that an
    expert would try, and that gains nothing here or makes it slower."""
    operation: Slug
    """What is computed, such as ``softmax``; pairs of one operation are left out together when a
    fit is tested."""
    bottlenecks: tuple[Slug, ...] = Field(min_length=1)
    """What limits ``before``: any of them is a correct first cause."""
    fix: Slug
    """The change."""
    change: str
    """The change in words, with the factor that its author chose."""
    launch_count: int = Field(1, gt=0)
    """Launches in a call of ``before``; such a pair is timed, and profiled only if it is one."""
    place: FlawPlace | None = None
    """None: it lies in no line, or it has not been said in which."""
