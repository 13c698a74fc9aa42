"""Defines what machine code shows about a kernel without running it."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict  # pydantic takes no typing.TypedDict before Python 3.12

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
