"""Defines where the first change of an answer is made."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic takes no typing.TypedDict before Python 3.12


class ChangePlace(TypedDict):
    """Where the first change of an answer is made, in a kernel of the project."""

    fix: str
    kernel: str
    target: str
    workload: str | None
    """Null: the target's default."""
    variant: str
    """The variant that the answer is about."""
    file: str
    """The file to change, relative to the project: of the copy that `variant add` makes, if no
    variant applies the fix yet."""
    line: int | None
    because: str
    """What is at that line."""
    variants: list[str]
    """All of the kernel, for this target."""
    applied_by: str | None
    """The variant that applies the fix already; null: none does."""
    new_variant: str
    """The variant to change: a free name for a copy, or that of a copy that was not changed yet."""
    is_copied: bool
    """Whether that copy exists."""
