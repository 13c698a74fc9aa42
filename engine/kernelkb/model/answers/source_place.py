"""Defines places in source that an answer names: a bottleneck's lines, and where to change it."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict  # pydantic takes no typing.TypedDict before Python 3.12


class CodePlace(TypedDict):
    """A line of the source, and an instruction of it."""

    file: str
    line: int
    text: str
    """Stripped; empty where the source is not known."""
    instruction: str
    """As SASS."""


class SourceLine(TypedDict):
    """One line that a diagnosis points at."""

    at: CodePlace
    share: float
    """Of what the evidence counts, 0 to 1."""
    of: str
    """What that is, in words."""
    samples: float | None
    """Share of all samples that lie at the line; None without samples."""
    stall: str | None
    """The most frequent reason of the samples at the line."""
    access: str | None
    """The array access that the instruction makes, as in the source; null where it has none."""
    pattern: str | None
    """How a warp's lanes access memory there, in words."""
    called_at: CodePlace | None
    """The line of the kernel that calls it, where it was inlined from a function."""
    waiting: CodePlace | None
    """The line that waits for it, where the cause is what it waits for."""
    dependence: Literal["result", "operands", "scoreboard"] | None
    """How it depends on it; see ``sass.producers``."""


class AccessedLine(TypedDict):
    """How the lanes of a warp access memory at a line, where many sectors or passes are due to it.

    Of several instructions the one that needs most.
    """

    file: str
    line: int
    share: float
    """Of the sectors, or of the passes in shared memory, of all lines."""
    pattern: str


class LineAnswer(TypedDict):
    """The lines of one diagnosis."""

    lines: list[SourceLine]
    """Three at most, the largest share first."""
    reason: str | None
    """Why there are none."""


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
