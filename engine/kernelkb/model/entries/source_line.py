"""Defines what shows in which line of a kernel a bottleneck lies, and the lines that it finds."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict  # pydantic takes no typing.TypedDict before Python 3.12

from kernelkb.model.base import Record

LineQuantity = Literal[
    "samples", "executed", "idle-lanes", "divergent-branches", "sectors", "excess-sectors",
    "l1-passes", "excess-wavefronts",
]  # fmt: skip
"""What can be counted at an instruction, besides stalls.

executed: warps that executed it. idle-lanes: lanes that did not take part. sectors: of 32 bytes of
global memory; excess: those that a coalesced access of as many bytes would not need. l1-passes:
through shared memory or L1, of 128 bytes. excess-wavefronts: passes of bank conflicts."""
Stall = Literal[
    "stall:barrier", "stall:branch_resolving", "stall:dispatch_stall", "stall:drain",
    "stall:imc_miss", "stall:lg_throttle", "stall:long_scoreboard", "stall:math_pipe_throttle",
    "stall:membar", "stall:mio_throttle", "stall:no_instructions", "stall:short_scoreboard",
    "stall:sleeping", "stall:tex_throttle", "stall:wait",
]  # fmt: skip
"""Samples of warps that could not issue, by Nsight Compute's name of the reason."""


class LineEvidence(Record):
    """What is counted at instructions to find the lines of a bottleneck."""

    count: Literal[LineQuantity, Stall]
    """What to count."""
    operations: tuple[str, ...] = ()
    """Only at these, such as ``LDG`` or ``LDG.E.128``; empty: at all."""
    without: tuple[str, ...] = ()
    """Not at operations with one of these modifiers, such as ``"128"``."""
    producer: bool = False
    """Whether the cause is the instruction that is waited for, not the one that waits."""
    of: str
    """What the share is of, in words: ``the excess sectors``."""


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
    called_at: int | None
    """The line that calls it, where it was inlined from a function of the same file."""
    waiting: CodePlace | None
    """The line that waits for it, where the cause is what it waits for."""
    dependence: Literal["result", "operands", "scoreboard"] | None
    """How it depends on it; see ``sass.producers``."""


class LineAnswer(TypedDict):
    """The lines of one diagnosis."""

    lines: list[SourceLine]
    """Three at most, the largest share first."""
    reason: str | None
    """Why there are none."""
