"""Defines the model of a kernel's time, the effects of fixes on it, and libraries' kernel names."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from kernelkb.model.base import Name, Quantity, Record, Slug
from kernelkb.model.entries.condition import Condition
from kernelkb.model.entries.metric import Formula


class Resource(Record):
    """One unit that a kernel uses for a share of its time."""

    id: Slug
    title: str
    unit: Slug
    """The part of the GPU that it belongs to; an effect may name it for all of its resources."""
    group: Literal["memory", "l1", "compute"]
    """Members of a group carry the same traffic: the busiest counts. ``memory`` serves all SMs."""
    use: Name
    """Metric: its use as a share of the peak, over the whole time and, for a unit of the SMs, over
    all of them."""
    peak: float | Quantity
    """Highest share that kernels reach."""


class Wait(Record):
    """One reason for which a warp waits."""

    id: Slug
    metric: Name
    """Its share of a warp's latency."""
    follows: Slug | None = None
    """A resource whose work this waiting is proportional to, since each access or instruction
    waits; ``others``: warps wait for warps, which wait for the other reasons. None: neither."""


class ErrorModel(Record):
    """How far predictions miss: the logarithm of measured ÷ predicted gain.

    An interval of the gain g is g ×/÷ exp(width · (1 + slope · ln g)).
    """

    width_50: float = Field(gt=0)
    width_80: float = Field(gt=0)
    width_95: float = Field(gt=0)
    slope: float = Field(ge=0)


class TimeModel(Record):
    """The resources of a GPU, and which metrics tell a kernel's use of them."""

    resources: tuple[Resource, ...] = Field(min_length=2)
    waits: tuple[Wait, ...]
    fill: Name
    """Metric: mean share of the time in which an SM has work."""
    warps: Name
    """Metric: warps in flight on the whole GPU."""
    duration: Name
    """Metric: the time that the profiler saw, in µs."""
    empty_kernel: Name
    """Metric: the time of an empty kernel under the profiler, in µs."""
    empty_us: float
    """The same where it was not measured."""
    clock: Name
    """Metric: SM clock under the profiler, as a share of the highest."""
    errors: ErrorModel
    sources: tuple[Slug, ...] = Field(min_length=1)


class Effect(Record):
    """What a fix does to the work and the concurrency of a kernel; what it does not name stays.

    Formulas take the metrics before the fix. If a quantity is unknown, so is the effect.
    """

    id: Slug
    title: str
    when: Condition | None = None
    """Where it is to be expected; None: always."""
    work: dict[Slug, Formula] = Field(default_factory=dict)
    """Factor on the work of a resource, of all resources of a unit, or of a group."""
    add: dict[Slug, Formula] = Field(default_factory=dict)
    """Use of a resource that comes in addition, as a share of its practical peak."""
    waits: dict[Slug, Formula] = Field(default_factory=dict)
    """Share of the waiting for a reason that stays."""
    latency: Formula | None = None
    """Factor on all latency."""
    fill: Formula | None = None
    """New share of the time in which an SM has work."""
    warps: Formula | None = None
    """New number of warps in flight on the whole GPU."""
    time: Formula | None = None
    """Time after ÷ time before, where the counters of a launch do not tell it: whole calls, CPUs,
    launch shapes without a profile."""
    parts: tuple[Slug, ...] = ()
    """Effects that this one has at once, for flaws that hide each other; to compare with."""
    lowers_floor: bool = False
    """Whether it changes the work of the algorithm, so that the roofline does not cap the gain."""
    conditional: bool = False
    """Whether its user has to allow it, such as another data type: the fix has a predicted gain,
    its diagnosis does not promise it."""
    error: float = Field(default=1.0, gt=0)
    """Factor on the width of the interval."""
    why: str = ""
    sources: tuple[Slug, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _require_change(self) -> Self:
        parts = (self.work, self.add, self.waits, self.latency, self.fill, self.warps)
        if (self.time is None) == (not any(parts)):
            raise ValueError("give either the time or what changes: work, waits, fill, warps")
        return self


class EffectCatalogue(Record):
    """The file ``effects.yaml``."""

    model: TimeModel | None = None
    """None in a project's overlay."""
    effects: tuple[Effect, ...] = ()


class Library(Record):
    """A library: its kernels are tuned by others, so only their call can be changed."""

    id: Slug
    title: str
    name_pattern: str
    """Regular expression that finds its kernels by their demangled names."""
    advice: str
    """What can be changed at the call."""
    sources: tuple[Slug, ...] = Field(min_length=1)

    @field_validator("name_pattern")
    @classmethod
    def _check_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return pattern


class LibraryCatalogue(Record):
    """The file ``libraries.yaml``."""

    libraries: tuple[Library, ...] = ()
