"""Defines symptoms: regular expressions on build, load and run logs (``knowledge/symptoms/``)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from kernelkb.model.base import Record, Slug


def _check_regex(pattern: str) -> str:
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    if compiled.match(""):
        raise ValueError("matches an empty log; it must contain at least one word")
    return pattern


Regex = Annotated[str, AfterValidator(_check_regex)]
"""A regular expression of Python's ``re`` with MULTILINE; named groups are captured."""


_OLD_KEYS = {"says": "log_patterns", "resembles": "counterexample", "weighs": "explain"}


class CudaError(Record):
    """One error code of the CUDA runtime and driver."""

    code: int = Field(ge=1)
    names: tuple[str, ...] = Field(min_length=1)
    """In ``cudaError_t`` and ``CUresult``."""
    text: str
    """What cudaGetErrorString returns."""


class Symptom(Record):
    """One kind of failure: the log lines that show it, its cause and its cure."""

    id: Slug
    title: str
    log_patterns: tuple[Regex, ...] = ()
    """The symptom is found where any of these matches, anywhere in the log."""
    cuda_errors: tuple[CudaError, ...] = ()
    """It is also found where a log shows one of these by name, number or text."""
    fallback: bool = False
    """Whether it only names a family of errors: it is reported where no other error is found."""
    severity: Literal["error", "warning"] = "error"
    """Whether it stops the work, or only costs time or hides a cause; errors are told first."""
    unless: tuple[Slug, ...] = ()
    """More specific symptoms: a line that shows one of them does not count for this one."""
    consequence_of: tuple[Slug, ...] = ()
    """Symptoms that bring this one about: it is not reported where one of them is found."""
    cause: str
    cure: str
    """What to change."""
    check: str
    """How to confirm the cause, or that it is gone."""
    fixes: tuple[Slug, ...] = ()
    pattern: Slug | None = None
    """The pattern that avoids it; None without one."""
    explain: Literal["shared-memory"] | None = None
    """A note to compute from the captured values: whether the bytes fit the device."""
    example: str
    """An excerpt of a real log, in which the symptom is found."""
    captures: dict[str, str] = Field(default_factory=dict)
    """Values of the named groups in the example."""
    counterexample: str
    """Similar text of another meaning, in which the symptom must not be found."""
    sources: tuple[Slug, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_finds_something(self) -> Self:
        if not self.log_patterns and not self.cuda_errors:
            raise ValueError("needs log_patterns or cuda_errors")
        return self

    @model_validator(mode="before")
    @classmethod
    def _accept_old_keys(cls, data: Any) -> Any:
        """Read the keys of the earlier release from a project's own files; for one release."""
        if not isinstance(data, dict) or not data.keys() & _OLD_KEYS.keys():
            return data
        return {_OLD_KEYS.get(key, key): value for key, value in data.items()}


class SymptomFamily(Record):
    """One file below ``symptoms/``."""

    family: Literal[
        "build", "setup", "nvcc", "ptxas", "link", "torch-extension", "triton", "driver", "runtime",
        "libraries", "nccl", "profilers", "dynamo", "correctness",
    ]  # fmt: skip
    """The tool that writes the messages; ``build`` is for a project's own."""
    symptoms: tuple[Symptom, ...] = Field(min_length=1)
