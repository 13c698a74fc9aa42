"""A mutant: one edit of a correct kernel's source, named by kernel, operator and position."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal[
    "off-by-one bounds",
    "dropped tail",
    "swapped indices",
    "missing sync",
    "stale scratch",
    "wrong dtype or accumulator",
    "constant instead of axis",
    "one wrong lane",
    "wrong for one size",
    "wrong for NaN, ties or extremes",
    "dropped term",
    "wrong constant",
    "wrong comparison",
    "wrong operator",
    "missing initialisation",
    "early return",
]


class Edit(NamedTuple):
    """A replacement of ``text[start:end]`` of a source."""

    kind: Kind
    operator: str
    start: int
    end: int
    replacement: str

    def apply(self, text: str) -> str:
        """Return the source with this edit."""
        return text[: self.start] + self.replacement + text[self.end :]


class Mutant(NamedTuple):
    """A kernel's source with one edit."""

    kernel: str
    """The folder's name."""
    variant: str
    language: str
    kind: Kind
    operator: str
    position: int
    """Where the edit starts: characters from the source's start."""
    number: int
    """Among the mutants of one operator at one position."""
    source: str
    """The whole source."""
    difference: str
    """The first line that differs: before and after."""

    @property
    def name(self) -> str:
        """Kernel, variant, operator and position: enough to make it again."""
        where = f"{self.operator}@{self.position}.{self.number}"
        return f"{self.kernel}/{self.variant}/{where}"


def describe_difference(before: str, after: str) -> str:
    """Return the first lines that differ, as ``before → after``, and how many lines are new."""
    left, right = before.splitlines(), after.splitlines()
    for index, (old, new) in enumerate(zip(left, right, strict=False)):
        if old != new:
            added = right[index : index + 1 + len(right) - len(left)]
            return f"{old.strip()}  →  {'; '.join(line.strip() for line in added) or new.strip()}"
    return "the last lines are missing"
