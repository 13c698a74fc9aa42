"""Defines places in source that an answer names: lines, where to change them, what was compiled."""

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


StaticKind = Literal[
    "spill", "local-array", "global-width", "shared-width", "neighbouring-accesses",
    "integer-division", "precise-division", "fp64", "not-contracted", "pointer-chase", "chain",
    "dependent-loads", "tensor", "wgmma-serialised", "unrolled", "uniform-datapath", "predication",
    "registers",
]  # fmt: skip
"""spill: registers in local memory. local-array: an array in local memory. global-width,
shared-width: accesses of one width. neighbouring-accesses: narrow ones at addresses side by side.
not-contracted: a product and a sum that are no FMA. pointer-chase: a load in a loop whose address
comes from its own result. chain: arithmetic in a loop that needs its own result of the iteration
before. dependent-loads: loads whose addresses come from loads. unrolled: copies of a line's
instruction in a loop. registers: where most are live."""


class StaticPlace(TypedDict):
    """A line of the source that a fact lies at."""

    file: str
    line: int
    count: int
    """Instructions of the fact at the line."""
    text: str
    """The line, stripped; empty where the source is not known."""
    names: list[str]
    """What the fact is about: an array, a variable, a literal; empty where it cannot be told."""


class StaticFact(TypedDict):
    """Something that the compiler did with a kernel."""

    kind: StaticKind
    words: str
    """In a few words, without the places."""
    count: int
    """Instructions."""
    amount: float
    """By kind: bytes a lane (widths), cycles an iteration (chains), live registers, copies of an
    instruction (unrolled), loads one after another (dependent-loads), a share of the instructions
    (predication, uniform-datapath); else the count."""
    loop_depth: int
    """Loops around the innermost of the instructions; 0: outside of loops."""
    notable: bool
    """Whether it may cost time. What it costs only a measurement shows."""
    places: list[StaticPlace]
    """In the order of the source; empty where the code has no lines."""


class KernelFacts(TypedDict):
    """The facts about one function of machine code."""

    kernel: str
    """Mangled."""
    instruction_count: int
    """Without the subroutines that the compiler adds, and without padding."""
    facts: list[StaticFact]
    """Notable ones first."""


class StaticReport(TypedDict):
    """What the machine code of a file shows."""

    kernels: list[KernelFacts]
    """In the order of the file."""
    reason: str | None
    """Why there are none, with the cure."""
