"""A named measured quantity, and the recipes that collect it."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from kernelkb.model.base import EvidenceLevel, Name, Quantity, Record, Slug, Target

Unit = Literal["ratio", "share", "truth", "us", "bytes", "gbps", "count", "cycles", "seconds"]
_DIMENSIONAL_UNITS = ("us", "bytes", "gbps", "count", "cycles", "seconds")
_OPERAND_COUNTS = {
    "quotient": 2,
    "difference": 2,
    "remainder": 2,
    "ceil-quotient": 2,
    "wave-loss": 1,
    "latency-hiding": 3,
}


class Derivation(Record):
    """How a metric follows from others; unknown as long as one of them is unknown."""

    op: Literal[
        "quotient",
        "product",
        "sum",
        "difference",
        "max",
        "min",
        "remainder",
        "ceil-quotient",
        "wave-loss",
        "latency-hiding",
    ]
    of: tuple[Quantity | float, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_operand_count(self) -> Self:
        wanted = _OPERAND_COUNTS.get(self.op)
        if wanted and len(self.of) != wanted:
            raise ValueError(f"{self.op} takes {wanted} operands, not {len(self.of)}")
        return self


class Metric(Record):
    """One quantity that conditions may refer to."""

    id: Name
    """Anything with a dimension wears it: ``kernel_us``; ratios and shares are plain words."""
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
    """Raw names for each tool; the first that a report holds wins. On the details page of ncu a
    name is ``section/title``."""
    raw_scale: float = 1.0
    """What a raw value is multiplied by to reach this metric's unit."""
    raw_zero: Literal["known", "unknown"] = "known"
    """Whether a raw 0 is a value, or what a tool reports of an average over nothing."""
    derive: Derivation | None = None
    recipe: Slug | None = None
    """The recipe that collects it; null for what only the caller can say, or what is derived."""
    sources: tuple[Slug, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_unit_suffix(self) -> Self:
        if self.unit in _DIMENSIONAL_UNITS and not self.id.endswith(f"_{self.unit}"):
            raise ValueError(f"{self.id} has unit {self.unit}; name it {self.id}_{self.unit}")
        return self


class Recipe(Record):
    """One way to collect a group of metrics."""

    id: Slug
    title: str
    target: Target | None = None
    command: str
    """What to type; ``{kernel}`` stands for the kernel's name, ``{target}`` for cpu or cuda."""
    cost: float = Field(gt=0)
    """Relative cost of collecting, in profiler replay passes; 2 for what a build prints."""
    includes: tuple[Slug, ...] = ()
    """Recipes whose metrics this one collects as well."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class MetricCatalogue(Record):
    """The file ``metrics.yaml``."""

    metrics: tuple[Metric, ...] = ()
    recipes: tuple[Recipe, ...] = ()
