"""Defines the task formats of other projects, and what kb says about their candidates.

FlashInfer-Bench: flashinfer-bench 0.1.2, the FlashInfer Trace schema.
SOL-ExecBench extends it: axes that are expressions, inputs that the reference makes, several
languages and compiler options.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from kernelkb.model.base import Record


class ForeignRecord(BaseModel):
    """Base of records that another project defines and may extend: unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class Axis(ForeignRecord):
    """A dimension with a constant size, or with a size for each workload."""

    type: Literal["const", "var", "expr"]
    value: int | None = None
    expression: str | None = None
    """expr: arithmetic of other axes, such as ``heads // 2``."""


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
    custom_inputs_entrypoint: str | None = None
    """A function in ``reference`` that makes the inputs of type ``custom``."""


class WorkloadInput(ForeignRecord):
    """The source of an input's values."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: bool | int | float | None = None


class Workload(ForeignRecord):
    """Sizes of the variable axes, and sources of the inputs."""

    axes: dict[str, int]
    inputs: dict[str, WorkloadInput] = Field(default_factory=dict)
    uuid: str = ""
    tolerance: dict[str, Any] | None = None


class Trace(ForeignRecord):
    """One line of a workload file: a workload and its definition's name, or only a workload."""

    definition: str | None = None
    workload: Workload

    @model_validator(mode="before")
    @classmethod
    def _wrap_workload(cls, fields: Any) -> Any:
        bare = isinstance(fields, dict) and "axes" in fields and "workload" not in fields
        return {"workload": fields} if bare else fields


class CompileOptions(ForeignRecord):
    """Further flags of a compiled solution."""

    cflags: tuple[str, ...] = ()
    cuda_cflags: tuple[str, ...] = ()
    ld_flags: tuple[str, ...] = ()


class BuildSpec(ForeignRecord):
    """How a solution is built and called; ``entry_point`` is ``file::function``."""

    language: str = ""
    languages: tuple[str, ...] = ()
    """One of the two is given; several languages are all Python, or all C++."""
    entry_point: str
    destination_passing_style: bool = True
    binding: Literal["tvm-ffi", "torch"] | None = None
    compile_options: CompileOptions | None = None

    @model_validator(mode="after")
    def _require_language(self) -> Self:
        if not self.language and not self.languages:
            raise ValueError("give a language, or languages")
        return self


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


TimingKind = Literal["process", "kernels", "region", "gpu", "custom"]


class TimingMode(ForeignRecord):
    """How the problem's benchmark is timed: by a profiler, or (custom) by a line that it prints."""

    type: TimingKind = "process"


class SourceReferences(ForeignRecord):
    """Names that a solution must use: each of ``all``, and one of ``any``."""

    any: tuple[str, ...] | None = None
    all: tuple[str, ...] | None = None


class FileSolution(ForeignRecord):
    """A candidate or a baseline: the files that it adds to the problem's."""

    task_id: str
    files: tuple[SourceFile, ...] = Field(min_length=1)


class ComputeEvalProblem(ForeignRecord):
    """A program with a test of its own: what is built, what is run, and what it needs."""

    task_id: str
    context_files: tuple[SourceFile, ...] = ()
    test_files: tuple[SourceFile, ...] = ()
    source_references: SourceReferences | None = None
    build_command: str | None = None
    test_command: str
    benchmark_command: str | None = None
    timing_mode: TimingMode = TimingMode()
    min_cuda_toolkit: str | None = None
    compute_capability: str | None = "8.0"
    """Of the GPU that it needs at least; None: it needs no GPU."""
    timeout_seconds: float | None = Field(None, gt=0)
    """For each command; None: 60 seconds."""
    baseline_solution: FileSolution | None = None

    @field_validator("source_references", mode="before")
    @classmethod
    def _expand_references(cls, value: Any) -> Any:
        """Accept one name, or a list of names that are all needed."""
        if isinstance(value, str):
            return {"all": [value]}
        return {"all": value} if isinstance(value, list) else value


class ProblemResult(Record):
    """Whether a candidate passes a problem's own test; no verdict on its speed."""

    problem: str
    candidate: str
    status: Literal["passed", "failed", "timed-out", "not-built", "built"]
    """built: its test could not be run on this machine."""
    detail: str
    cure: str | None = None
    candidate_ms: float | None = None
    """Median milliseconds that its benchmark program reported; None where it reported none."""
    baseline_ms: float | None = None
    """The same of the problem's baseline."""
    layers: tuple[str, ...] = ()
    """Sandbox layers that were active while the test ran."""
    warnings: tuple[str, ...] = ()
    seconds: float
