"""Defines the records of libraries whose kernels are recognised by name (``libraries.yaml``)."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from kernelkb.model.base import Record, Slug


class Library(Record):
    """A library: its kernels are tuned by others, so only their call can be changed."""

    id: Slug
    title: str
    name_pattern: str
    """Regular expression that finds its kernels by their demangled names."""
    advice: str
    """What can be changed at the call."""
    sources: tuple[Slug, ...] = Field(min_length=1)

    @field_validator("name_pattern")
    @classmethod
    def _check_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return pattern


class LibraryCatalogue(Record):
    """The file ``libraries.yaml``."""

    libraries: tuple[Library, ...] = ()
