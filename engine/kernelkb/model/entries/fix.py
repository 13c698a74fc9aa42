"""Defines fixes, and what each changes of a kernel's time: its effects."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from kernelkb.model.base import Evidence, Name, Quantity, Record, Slug, Target
from kernelkb.model.entries.bottleneck import Condition, Regex
from kernelkb.model.entries.quantities import Formula

CodeCount = Literal[
    "wide_loads",
    "wide_stores",
    "wide_shared_loads",
    "shared_loads",
    "shared_stores",
    "async_copies",
    "bulk_copies",
    "matrix",
    "group_matrix",
    "matrix_loads",
    "fp64",
    "packed_half",
    "shuffles",
    "shared_atomics",
    "global_atomics",
    "local",
    "barriers",
    "registers",
]
"""What is counted in machine code: instructions of a kind, or the registers of a thread."""

CountChange = Literal["some", "none", "more", "fewer"]
"""some: from none to some; none: from some to none."""

Arch = Annotated[str, Field(pattern=r"^sm_[1-9][0-9]{1,2}[af]?$")]
"""A target of nvcc, such as ``sm_90a``."""


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
    unseen: float = Field(ge=1)
    """Factor on the width told: kernels of kinds that no rule was written from miss by more."""


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
    bounds_gain: bool = False
    """Whether nothing gains more than the time says, as no loop on 2 cores is 3 times as fast."""
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


class ChangeSignature(Record):
    """How one sees that a change applied a fix: by its source, or by its machine code."""

    added: Regex | None = None
    """Matches more in the lines that were added than in those that were removed."""
    removed: Regex | None = None
    """Matches more in the lines that were removed. With ``added``: both."""
    code: dict[CodeCount, CountChange] = Field(default_factory=dict)
    """What the compiler made of it, all of them; enough alone."""
    finds_all: bool = False
    """Whether it finds every change of the zoo that applies the fix, by source or machine code, and
    has a ``code``: only then an author who names the fix is contradicted. Measured, and held by
    ``tests/knowledge/test_signatures.py``."""


class Fix(Record):
    """One change to a kernel: what to do, when not to, its effort and its risk."""

    id: Slug
    do: str
    """The change, as an instruction."""
    before: str
    """Code without the fix."""
    after: str
    """The same code with the fix."""
    on_line: str | None = None
    """The change on the line that a report names, with ``{access}`` for the array access there."""
    when_not: str | None
    """Situations in which it does not help or does harm and that no metric tells; None if none is
    known."""
    cost_min: Literal[5, 30, 120, 480]
    """Minutes of work for an experienced engineer, in four classes."""
    risk: Literal["low", "medium", "high"]
    """How likely it is to break the kernel or to make it slower."""
    risk_note: str | None = None
    """The risk in words; None if the class is enough."""
    targets: tuple[Target, ...]
    """Where it can be applied."""
    applies: Condition
    """When the change can gain anything. The fix is suggested unless this is false; an unknown
    condition keeps it."""
    at_call: bool = False
    """Whether it changes the call of a kernel or its data, so that it applies to a library's kernel
    too."""
    effects: tuple[Slug, ...] = ()
    """What it changes in the model of the time: the first effect that is to be expected and whose
    quantities are known. Empty: its gain cannot be computed."""
    recognised_by: ChangeSignature | None = None
    """How a change that applies it is recognised; None: only by what its author says."""
    undoes: tuple[Slug, ...] = ()
    """Fixes that change the same thing the other way round."""
    facts: tuple[str, ...] = ()
    """Names, sizes and limits by architecture that one needs to apply it; each can be checked."""
    verify: str | None = None
    """The instruction, counter or message that shows that the change took effect; None if only the
    time shows it."""
    patterns: tuple[Slug, ...] = ()
    """Ways of working that keep it correct."""
    evidence: Evidence = "judgement"
    """What stands behind the claim that it helps; ``sources`` has to hold one of that kind."""
    sources: tuple[Slug, ...] = Field(min_length=1)
    """Ids of ``sources.yaml``."""


class FixFamily(Record):
    """One file below ``fixes/``."""

    family: Slug
    """The file's name without ``.yaml``."""
    fixes: tuple[Fix, ...] = Field(min_length=1)


class FixCode(Record):
    """One file that compiles by itself: the code without a fix, and the same code with it."""

    fix: Slug
    """Id of the fix, which is also the name of the file."""
    arch: tuple[Arch, ...] = Field(min_length=1)
    """The targets that it was compiled for."""
    source: Slug
    """Where the change comes from: an id of ``sources.yaml``."""
    text: str
    """The whole file: the header, what both sides share, ``namespace before``, and
    ``namespace after``."""
