"""Defines the words that people use for an entry and that its own text does not hold."""

from __future__ import annotations

from pydantic import Field

from kernelkb.model.base import Record


class OtherNames(Record):
    """Other names of one entry."""

    id: str
    """Of an entry of any kind, or of a command: ``kb bench``."""
    also: tuple[str, ...] = Field(min_length=1)
    """Words, phrases, names of functions and instructions, as people type them."""


class SearchTerms(Record):
    """The file ``search.yaml``."""

    synonyms: tuple[tuple[str, ...], ...] = ()
    """Groups of words and phrases that mean the same in every entry."""
    entries: tuple[OtherNames, ...] = ()
