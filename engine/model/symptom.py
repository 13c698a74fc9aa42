"""Defines symptoms: regular expressions on build, load and run logs (``knowledge/symptoms/``)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

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


class Symptom(Record):
    """One kind of failure: the log lines that show it, its cause and its cure."""

    id: Slug
    title: str
    says: tuple[Regex, ...] = Field(min_length=1)
    """The symptom is found where any of these matches, anywhere in the log."""
    unless: tuple[Slug, ...] = ()
    """More specific symptoms: this one is not reported where one of them is found too."""
    cause: str
    cure: str
    """What to change."""
    check: str
    """How to confirm the cause, or that it is gone."""
    fixes: tuple[Slug, ...] = ()
    pattern: Slug | None = None
    """The pattern that avoids it; None without one."""
    weighs: Literal["shared-memory"] | None = None
    """A limit that the engine checks with the captured values: whether the bytes fit the device."""
    example: str
    """An excerpt of a real log, in which the symptom is found."""
    captures: dict[str, str] = Field(default_factory=dict)
    """Values of the named groups in the example."""
    resembles: str
    """Counterexample: similar text of another meaning, in which the symptom must not be found."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class SymptomFamily(Record):
    """One file below ``symptoms/``."""

    family: Literal["build", "correctness"]
    symptoms: tuple[Symptom, ...] = Field(min_length=1)
