"""Formats of other projects that agents write kernels in. Fields that we do not use are ignored.

FlashInfer-Bench: flashinfer-bench 0.1.2, the FlashInfer Trace schema.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ForeignRecord(BaseModel):
    """A record that somebody else defines, and may extend."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class Axis(ForeignRecord):
    """A dimension: of one size always, or of one size for each workload."""

    type: Literal["const", "var"]
    value: int | None = None


class Tensor(ForeignRecord):
    """An array, or a number where there is no shape."""

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
    """Where an input's values come from."""

    type: Literal["random", "scalar", "safetensors"]
    value: bool | int | float | None = None


class Workload(ForeignRecord):
    """Sizes of the variable axes, and inputs."""

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


class T4Value(ForeignRecord):
    """One thing that an auto-tuner measured. T4: the results schema 1.0.0 of Kernel Tuner."""

    name: str
    value: float | str | list[float | str]
    unit: str = ""


class T4Times(ForeignRecord):
    """What a configuration took, in ms."""

    runtimes: tuple[float, ...] = ()
    """Of each run of the kernel."""


class T4Result(ForeignRecord):
    """One configuration."""

    timestamp: str | None = None
    configuration: dict[str, bool | int | float | str]
    times: T4Times
    invalidity: Literal["timeout", "compile", "runtime", "correctness", "constraints", "correct"]
    correctness: float
    measurements: tuple[T4Value, ...] = ()


class T4File(ForeignRecord):
    """A file of tuning results."""

    schema_version: str
    results: tuple[T4Result, ...]


class Performance(ForeignRecord):
    """How long a solution and the reference took."""

    latency_ms: float
    reference_latency_ms: float
    speedup_factor: float


class TraceEnvironment(ForeignRecord):
    """Where a trace was taken."""

    hardware: str
    libs: dict[str, str] = Field(default_factory=dict)


class Evaluation(ForeignRecord):
    """What came of a solution; the other statuses say how it failed."""

    status: str
    environment: TraceEnvironment
    timestamp: str
    log: str = ""
    performance: Performance | None = None


class SolvedTrace(Trace):
    """A line of a trace file: a workload, and what a solution did with it, if there was one."""

    solution: str | None = None
    evaluation: Evaluation | None = None
