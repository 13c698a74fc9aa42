"""What a log says when a build, a load or a run went wrong."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kernelkb.model.base import Record, Slug


def _check_regex(pattern: str) -> str:
    try:
        found = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from error
    if found.match(""):
        raise ValueError("matches an empty log; demand at least one word")
    return pattern


Regex = Annotated[str, AfterValidator(_check_regex)]
"""Python's regular expressions, with ``^`` and ``$`` at every line; named groups are captured."""


class Symptom(Record):
    """One failure: how it is recognised, what causes it, what cures it."""

    id: Slug
    title: str
    says: tuple[Regex, ...] = Field(min_length=1)
    """Any one of them, anywhere in the log."""
    unless: tuple[Slug, ...] = ()
    """More precise symptoms: where one of them is found as well, this one is not named."""
    cause: str
    cure: str
    check: str
    """How to make sure that it was this, or that it is gone."""
    fixes: tuple[Slug, ...] = ()
    pattern: Slug | None = None
    """The way of working that avoids it."""
    weighs: Literal["shared-memory"] | None = None
    """A limit that the engine works out from what was captured: whether the bytes fit after all."""
    example: str
    """A real log, shortened."""
    captures: dict[str, str] = Field(default_factory=dict)
    """What the named groups take from the example."""
    resembles: str
    """A text with the same words that means something else, and must not match."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class SymptomFamily(Record):
    """One file below ``symptoms/``."""

    family: Literal["build", "correctness"]
    symptoms: tuple[Symptom, ...] = Field(min_length=1)
