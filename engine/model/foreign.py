"""Defines the kernel file formats of other projects; fields that are not used are ignored.

FlashInfer-Bench: flashinfer-bench 0.1.2, the FlashInfer Trace schema.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ForeignRecord(BaseModel):
    """Base of records that another project defines and may extend: unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class Axis(ForeignRecord):
    """A dimension with a constant size, or with a size for each workload."""

    type: Literal["const", "var"]
    value: int | None = None


class Tensor(ForeignRecord):
    """An array, or a number if ``shape`` is None."""

    shape: tuple[str, ...] | None
    dtype: str


class Definition(ForeignRecord):
    """What a kernel computes; ``reference`` is Python source with a function ``run``."""

    name: str
    axes: dict[str, Axis]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    reference: str
    description: str | None = None


class WorkloadInput(ForeignRecord):
    """The source of an input's values."""

    type: Literal["random", "scalar", "safetensors"]
    value: bool | int | float | None = None


class Workload(ForeignRecord):
    """Sizes of the variable axes, and sources of the inputs."""

    axes: dict[str, int]
    inputs: dict[str, WorkloadInput] = Field(default_factory=dict)
    uuid: str = ""


class Trace(ForeignRecord):
    """One line of a workload file."""

    definition: str
    workload: Workload


class BuildSpec(ForeignRecord):
    """How a solution is built and called; ``entry_point`` is ``file::function``."""

    language: str
    entry_point: str
    destination_passing_style: bool = True
    binding: Literal["tvm-ffi", "torch"] | None = None


class SourceFile(ForeignRecord):
    """One file of a solution."""

    path: str
    content: str


class Solution(ForeignRecord):
    """A candidate for a definition."""

    name: str
    definition: str
    spec: BuildSpec
    sources: tuple[SourceFile, ...]
