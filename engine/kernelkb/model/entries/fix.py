"""Defines fixes: single changes to a kernel that can be measured alone, and their code."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kernelkb.model.base import Evidence, Record, Slug, Target
from kernelkb.model.entries.condition import Condition
from kernelkb.model.entries.symptom import Regex

CodeCount = Literal[
    "wide_loads",
    "wide_stores",
    "wide_shared_loads",
    "shared_loads",
    "shared_stores",
    "async_copies",
    "bulk_copies",
    "matrix",
    "group_matrix",
    "matrix_loads",
    "fp64",
    "packed_half",
    "shuffles",
    "shared_atomics",
    "global_atomics",
    "local",
    "barriers",
    "registers",
]
"""What is counted in machine code: instructions of a kind, or the registers of a thread."""

CountChange = Literal["some", "none", "more", "fewer"]
"""some: from none to some; none: from some to none."""


class ChangeSignature(Record):
    """How one sees that a change applied a fix: by its source, or by its machine code."""

    added: Regex | None = None
    """Matches more in the lines that were added than in those that were removed."""
    removed: Regex | None = None
    """Matches more in the lines that were removed. With ``added``: both."""
    code: dict[CodeCount, CountChange] = Field(default_factory=dict)
    """What the compiler made of it, all of them; enough alone."""
    finds_all: bool = False
    """Whether it finds every change of the zoo that applies the fix, by source or machine code, and
    has a ``code``: only then an author who names the fix is contradicted. Measured, and held by
    ``tests/knowledge/test_signatures.py``."""


class Fix(Record):
    """One change to a kernel: what to do, when not to, its effort and its risk."""

    id: Slug
    do: str
    """The change, as an instruction."""
    before: str
    """Code without the fix."""
    after: str
    """The same code with the fix."""
    on_line: str | None = None
    """The change on the line that a report names, with ``{access}`` for the array access there."""
    when_not: str | None
    """Situations in which it does not help or does harm; None if none is known."""
    cost_min: Literal[5, 30, 120, 480]
    """Minutes of work for an experienced engineer, in four classes."""
    risk: Literal["low", "medium", "high"]
    """How likely it is to break the kernel or to make it slower."""
    risk_note: str | None = None
    """The risk in words; None if the class is enough."""
    targets: tuple[Target, ...]
    """Where it can be applied."""
    applies: Condition | None = None
    """The fix is suggested unless this is false; an unknown condition keeps it. None: always."""
    at_call: bool = False
    """Whether it changes the call of a kernel or its data, so that it applies to a library's kernel
    too."""
    effects: tuple[Slug, ...] = ()
    """What it changes in the model of the time: the first effect that is to be expected and whose
    quantities are known. Empty: its gain cannot be computed."""
    recognised_by: ChangeSignature | None = None
    """How a change that applies it is recognised; None: only by what its author says."""
    undoes: tuple[Slug, ...] = ()
    """Fixes that change the same thing the other way round."""
    facts: tuple[str, ...] = ()
    """Names, sizes and limits by architecture that one needs to apply it; each can be checked."""
    verify: str | None = None
    """The instruction, counter or message that shows that the change took effect; None if only the
    time shows it."""
    patterns: tuple[Slug, ...] = ()
    """Ways of working that keep it correct."""
    evidence: Evidence = "judgement"
    """What stands behind the claim that it helps; ``sources`` has to hold one of that kind."""
    sources: tuple[Slug, ...] = Field(min_length=1)
    """Ids of ``sources.yaml``."""


class FixFamily(Record):
    """One file below ``fixes/``."""

    family: Slug
    """The file's name without ``.yaml``."""
    fixes: tuple[Fix, ...] = Field(min_length=1)


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
