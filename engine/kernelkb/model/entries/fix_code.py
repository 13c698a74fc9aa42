"""Defines the code of a fix: a kernel before and after it (``knowledge/fixes/code/``)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kernelkb.model.base import Record, Slug

Arch = Annotated[str, Field(pattern=r"^sm_[1-9][0-9]{1,2}[af]?$")]
"""A target of nvcc, such as ``sm_90a``."""


class FixCode(Record):
    """One file that compiles by itself: the code without a fix, and the same code with it."""

    fix: Slug
    """Id of the fix, which is also the name of the file."""
    arch: tuple[Arch, ...] = Field(min_length=1)
    """The targets that it was compiled for."""
    source: Slug
    """Where the change comes from: an id of ``sources.yaml``."""
    text: str
    """The whole file: the header, what both sides share, ``namespace before``, and
    ``namespace after``."""
