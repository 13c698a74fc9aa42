"""kernel.yaml: what a kernel computes, how to judge it, and the variants that exist."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from engine.model.base import Name, Record, Slug, Target

Dtype = Literal["float32", "float64", "float16", "bfloat16"]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
"""A file beside kernel.yaml; never a path, so that a kernel cannot reach outside its folder."""


class Array(Record):
    """One tensor argument: contiguous, row-major, passed as a raw pointer."""

    name: Name
    shape: tuple[Name | int, ...] = Field(min_length=1)
    dtype: Dtype


class Input(Array):
    """A tensor that the harness fills afresh, from a new seed, for every check."""

    fill: Literal["normal", "uniform"] = "normal"
    """normal: mean 0, deviation ``scale``; uniform: 0 to ``scale``."""
    scale: float = Field(default=1.0, gt=0)


class Reference(Record):
    """A torch function of the inputs, in order, that returns the outputs."""

    file: FileName
    function: Name


class Tolerance(Record):
    """An element matches when |got − want| ≤ atol + rtol·|want|."""

    atol: float = Field(gt=0)
    rtol: float = Field(ge=0)
    matched_ratio: float = Field(gt=0, le=1)
    """Share of elements that must match."""
    max_error: float = Field(gt=0)
    """No element may be further off than this, matched or not."""


class Cost(Record):
    """Work that any correct kernel must do, as expressions of the axes."""

    bytes: str
    """Each input read once and each output written once."""
    flops: str


class Variant(Record):
    """One implementation. Its entry point is a C function: inputs, outputs, axes, stream → int."""

    id: Slug
    target: Target
    language: Literal["c++", "cuda"]
    source: FileName
    summary: str
    flags: tuple[str, ...] = ()
    """Compiler flags on top of the defaults."""
    kernels: tuple[str, ...] = ()
    """``__global__`` functions that the profiler should look at."""
    applies: tuple[Slug, ...] = ()
    """Fixes that this variant applies to the plain one."""

    @model_validator(mode="after")
    def _language_fits_target(self) -> Self:
        if (self.language == "cuda") != (self.target == "cuda"):
            raise ValueError(f"a {self.language} variant cannot have target {self.target}")
        if any(not flag.startswith("-") for flag in self.flags):
            raise ValueError("every flag starts with '-'")
        return self


class Kernel(Record):
    """A kernel, its judge and its variants. Axes are int64 and follow the pointers in the call."""

    id: Name
    title: str
    axes: tuple[Name, ...] = Field(min_length=1)
    workloads: dict[Slug, dict[Name, int]] = Field(min_length=1)
    """From tiny to large: a value for every axis."""
    default_workload: dict[Target, Slug]
    """What triage measures: larger than the caches, so that memory speed is what is timed."""
    check_workloads: tuple[dict[Name, int], ...] = Field(min_length=1)
    """Odd shapes and boundaries, checked besides the named workloads."""
    inputs: tuple[Input, ...] = Field(min_length=1)
    outputs: tuple[Array, ...] = Field(min_length=1)
    reference: Reference
    tolerances: dict[Dtype, Tolerance] = Field(min_length=1)
    cost: Cost
    entry: Name
    variants: tuple[Variant, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        for sizes in (*self.workloads.values(), *self.check_workloads):
            if set(sizes) != set(self.axes) or min(sizes.values()) < 1:
                raise ValueError(
                    f"workload {sizes} must give a positive size to each of {self.axes}"
                )
        for array in (*self.inputs, *self.outputs):
            strange = [d for d in array.shape if isinstance(d, str) and d not in self.axes]
            if strange:
                raise ValueError(f"shape of {array.name} names {strange[0]!r}, not one of the axes")
        for output in self.outputs:
            if output.dtype not in self.tolerances:
                raise ValueError(f"no tolerance for {output.dtype}, the type of {output.name}")
        for target, name in self.default_workload.items():
            if name not in self.workloads:
                raise ValueError(f"default workload {name!r} of {target} is not defined")
        pairs = [(v.target, v.id) for v in self.variants]
        if len(set(pairs)) < len(pairs):
            raise ValueError("two variants share target and id")
        return self
