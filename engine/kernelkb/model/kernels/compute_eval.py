"""Defines the problems of ComputeEval, schema version 2, and what kb says about a candidate."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from kernelkb.model.base import Record
from kernelkb.model.kernels.foreign import ForeignRecord, SourceFile

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
