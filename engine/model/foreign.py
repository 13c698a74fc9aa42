"""File formats of FlashInfer-Bench and Kernel Tuner, as far as KernelKB reads and writes them.

FlashInfer-Bench: the FlashInfer Trace schema of flashinfer-bench 0.1.2. Other fields are ignored.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ForeignRecord(BaseModel):
    """A record that another project defines; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class Axis(ForeignRecord):
    """A dimension: ``const`` has one size, ``var`` a size for each workload."""

    type: Literal["const", "var"]
    value: int | None = None
    """Size of a const axis, in elements; None for var."""


class Tensor(ForeignRecord):
    """A tensor or a scalar argument."""

    shape: tuple[str, ...] | None
    """Names of axes; None for a scalar."""
    dtype: str


class Definition(ForeignRecord):
    """A kernel's task; ``reference`` is Python source with a function ``run``."""

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
    """Sizes of the var axes in elements, and the sources of the inputs."""

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
    """Whether outputs are arguments; otherwise they are returned."""
    binding: Literal["tvm-ffi", "torch"] | None = None


class SourceFile(ForeignRecord):
    """One file of a solution."""

    path: str
    content: str


class Solution(ForeignRecord):
    """A candidate kernel for a definition."""

    name: str
    definition: str
    spec: BuildSpec
    sources: tuple[SourceFile, ...]


class T4Value(ForeignRecord):
    """One measured quantity. T4 is the results schema 1.0.0 of Kernel Tuner."""

    name: str
    value: float | str | list[float | str]
    unit: str = ""


class T4Times(ForeignRecord):
    """Times of one configuration, in ms."""

    runtimes: tuple[float, ...] = ()
    """One for each run of the kernel."""


class T4Result(ForeignRecord):
    """The result of one configuration."""

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
    """Times of a solution and of the reference, in ms."""

    latency_ms: float
    reference_latency_ms: float
    speedup_factor: float
    """reference_latency_ms ÷ latency_ms."""


class TraceEnvironment(ForeignRecord):
    """The machine and library versions of a trace."""

    hardware: str
    libs: dict[str, str] = Field(default_factory=dict)


class Evaluation(ForeignRecord):
    """The result of a solution; ``status`` is ``PASSED`` or names the failure."""

    status: str
    environment: TraceEnvironment
    timestamp: str
    log: str = ""
    performance: Performance | None = None
    """None unless the solution passed."""


class SolvedTrace(Trace):
    """A line of a trace file: a workload, and a solution's result; None without a solution."""

    solution: str | None = None
    evaluation: Evaluation | None = None
