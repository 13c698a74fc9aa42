"""Defines the records of metrics, with unit and range, and of the recipes that collect them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from kernelkb.model.base import EvidenceLevel, Name, Record, Slug, Target
from kernelkb.model.entries.formula import OPERATORS, Formula

Unit = Literal["ratio", "share", "truth", "us", "bytes", "gbps", "count", "cycles", "seconds"]
_DIMENSIONAL_UNITS = ("us", "bytes", "gbps", "count", "cycles", "seconds")


def _to_formulas(value: object) -> object:
    """Return one formula, or several, as a sequence."""
    return value if isinstance(value, list | tuple) else [value]


Formulas = Annotated[tuple[Formula, ...], BeforeValidator(_to_formulas)]
"""One formula, or several in order of preference: the first whose quantities are known holds."""


class Metric(Record):
    """One quantity that conditions may refer to."""

    id: Name
    """Ends in the unit, as ``kernel_us`` does; ratios, shares and truths have no unit."""
    title: str
    definition: str
    unit: Unit
    range: tuple[float, float | None] = (0.0, None)
    """Lowest and highest possible value; null means no upper bound."""
    direction: Literal["higher-is-better", "lower-is-better", "context"]
    level: EvidenceLevel
    targets: tuple[Target, ...] = ("cpu", "cuda")
    flag: Literal["speedup", "bandwidth", "occupancy", "kernel-us"] | None = None
    """The headline command-line flag that sets this metric on its targets."""
    raw: dict[Literal["ncu", "ncu-details"], tuple[str, ...]] = Field(
        default_factory=dict, alias="from"
    )
    """Raw names for each tool; the first one in a report is used. ``counter[label]`` is one
    instance of a counter. On the details page of ncu a name is ``section/title``."""
    raw_scale: float = 1.0
    """Factor from a raw value to this metric's unit."""
    raw_zero: Literal["known", "unknown"] = "known"
    """known: a raw 0 is a value. unknown: the tool reports 0 for an average over no samples."""
    derive: Formulas = ()
    """How it follows from other quantities; empty if it does not."""
    recipe: Slug | None = None
    """The recipe that collects it; null if it is derived or only the caller can give it."""
    sources: tuple[Slug, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_unit_suffix(self) -> Self:
        if self.id in OPERATORS:
            raise ValueError(f"{self.id} is a function of formulas; choose another id")
        if self.unit in _DIMENSIONAL_UNITS and not self.id.endswith(f"_{self.unit}"):
            raise ValueError(f"{self.id} has unit {self.unit}; name it {self.id}_{self.unit}")
        return self


class Recipe(Record):
    """One way to collect a group of metrics."""

    id: Slug
    title: str
    target: Target | None = None
    command: str
    """Shell command; ``{kernel}`` stands for the kernel's name, ``{target}`` for cpu or cuda."""
    cost: float = Field(gt=0)
    """Relative cost of collecting, in profiler replay passes; 2 for what a build prints."""
    includes: tuple[Slug, ...] = ()
    """Recipes whose metrics this one collects as well."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class MetricCatalogue(Record):
    """The file ``metrics.yaml``."""

    metrics: tuple[Metric, ...] = ()
    recipes: tuple[Recipe, ...] = ()
