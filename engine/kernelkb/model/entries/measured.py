"""Defines the records of measured.yaml: what changes gave, from the recordings of the zoo."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelkb.model.base import Name, Record, Slug


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
