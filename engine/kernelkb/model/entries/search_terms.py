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
    field: tuple[str, ...] = ()
    """Words that only questions of this field hold: a part of such a question is enough to fit."""
    general: tuple[str, ...] = ()
    """Words that nearly every question of this field holds, so that they choose no entry."""
    speed: tuple[str, ...] = ()
    """Words of a question about a slow program, which a failure does not answer."""
    failure: tuple[str, ...] = ()
    """Words of a question about a program that fails."""
    outside: tuple[str, ...] = ()
    """Words of other fields and of other makers' GPUs: what is asked about them fits nothing."""
    entries: tuple[OtherNames, ...] = ()

    def get_word_lists(self) -> dict[str, tuple[str, ...]]:
        """Return the lists of words by the names of their fields."""
        names = ("field", "general", "speed", "failure", "outside")
        return {name: getattr(self, name) for name in names}
