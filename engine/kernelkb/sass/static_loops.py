"""Finds what static facts are told about: loops, lines, and the code that the user wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from kernelkb.model.answers.static_facts import StaticFact, StaticKind, StaticPlace
from kernelkb.sass.function import Place, SassFunction
from kernelkb.sass.static_dataflow import (
    MAX_TRACED,
    Dependences,
    find_live_registers,
    trace_results,
)

_SUBROUTINE = "$__internal"
"""In the label of a subroutine that the compiler adds, such as that of an exact division."""

_WORK = ("LD", "ST", "UTMA", "UBLK", "RED", "ATOM")
_MAX_WAIT = 16
"""Instructions of the longest loop that only waits."""


class SassLoop(NamedTuple):
    """A natural loop; those of one head are one loop."""

    head: int
    body: frozenset[int]
    depth: int
    """1: in no other loop."""
    is_innermost: bool
    is_main: bool
    """Innermost, and not the remainder of a larger loop that was unrolled."""


@dataclass(frozen=True)
class Code:
    """A function, with what every search for facts needs."""

    function: SassFunction
    own: list[int]
    """Indices of its instructions without subroutines and padding."""
    loops: list[SassLoop]
    depths: dict[int, int]
    """Loops around each instruction that is in one."""
    main: frozenset[int]
    """Instructions of main loops."""
    live: list[int]
    """Of ``find_live_registers``."""

    @cached_property
    def dependences(self) -> Dependences | None:
        """Which instruction uses whose result; None of code that is too large to trace it."""
        if not self.own or len(self.own) > MAX_TRACED:
            return None
        return trace_results(self.function, self.own[0], frozenset(self.own))

    @property
    def targets(self) -> set[int]:
        """Instructions that a jump leads to."""
        labels = self.function.labels.items()
        return {at for name, at in labels if name.startswith(".L")}


def survey_function(function: SassFunction) -> Code:
    """Return the loops of a function and the instructions that are its own."""
    own = _list_own(function)
    loops = _list_loops(function, set(own))
    depths: Counter[int] = Counter(at for loop in loops for at in loop.body)
    main = frozenset(at for loop in loops if loop.is_main for at in loop.body)
    return Code(function, own, loops, dict(depths), main, find_live_registers(function))


def _list_own(function: SassFunction) -> list[int]:
    starts = sorted((at, name) for name, at in function.labels.items() if name[0] == "$")
    starts.append((len(function.instructions), ""))
    added = {
        index
        for (start, name), (end, _) in pairwise(starts)
        if _SUBROUTINE in name
        for index in range(start, end)
    }
    return [
        index
        for index, one in enumerate(function.instructions)
        if index not in added and one.opcode != "NOP"
    ]


def _list_loops(function: SassFunction, own: set[int]) -> list[SassLoop]:
    """Return the loops, the smallest first."""
    bodies: dict[int, frozenset[int]] = {}
    for body in function.find_loops():
        head = min(body)
        if head in own and not _only_waits(function, body):
            bodies[head] = bodies.get(head, frozenset()) | body
    ordered = sorted(bodies.items(), key=lambda item: (len(item[1]), item[0]))
    depth = {head: sum(head in body for body in bodies.values()) for head in bodies}
    inner = {
        head
        for head, body in ordered
        if not any(
            other != head and other in body and depth[other] > depth[head] for other in bodies
        )
    }
    lines = {head: _list_lines(function, bodies[head]) for head in inner}
    main = {
        head
        for head in inner
        if not any(
            len(bodies[other]) > len(bodies[head]) and lines[head] and lines[head] <= lines[other]
            for other in inner
        )
    }
    return [
        SassLoop(head, body, depth[head], head in inner, head in main) for head, body in ordered
    ]


def _only_waits(function: SassFunction, body: frozenset[int]) -> bool:
    """Whether a loop polls a barrier in shared memory, or sleeps until something else happens."""
    opcodes = {function.instructions[index].opcode for index in body}
    works = any(name.startswith(_WORK) or name.endswith("MMA") for name in opcodes)
    return len(body) <= _MAX_WAIT and not works and bool(opcodes & {"SYNCS", "NANOSLEEP"})


def _list_lines(function: SassFunction, body: Iterable[int]) -> set[Place]:
    places = (find_place(function, index) for index in body)
    return {place for place in places if place is not None}


def find_place(function: SassFunction, index: int) -> Place | None:
    """Return the innermost line of an instruction in the folder of its kernel's own file.

    Lines of the toolkit's headers, which are inlined, are told as the lines that call them.
    """
    chain = function.places[index]
    if not chain:
        return None
    folder = _get_folder(chain[-1].file)
    return next(place for place in chain if _get_folder(place.file) == folder)


def _get_folder(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[0]


def list_places(function: SassFunction, indices: Iterable[int]) -> list[StaticPlace]:
    """Return the lines of instructions, with how many of them lie at each, in their order."""
    found = Counter(place for at in indices if (place := find_place(function, at)) is not None)
    return [
        {"file": place.file, "line": place.line, "count": count, "text": "", "names": []}
        for place, count in sorted(found.items())
    ]


def make_fact(
    code: Code, kind: StaticKind, words: str, indices: Iterable[int], *,
    amount: float | None = None, notable: bool = False,
) -> StaticFact:  # fmt: skip
    """Return a fact about instructions.

    Args:
        code: The function.
        kind: Which fact.
        words: Without places.
        indices: Of the instructions.
        amount: The count by default.
        notable: Whether it may cost time.
    """
    chosen = sorted(set(indices))
    return {
        "kind": kind,
        "words": words,
        "count": len(chosen),
        "amount": float(len(chosen)) if amount is None else amount,
        "loop_depth": max((code.depths.get(index, 0) for index in chosen), default=0),
        "notable": notable,
        "places": list_places(code.function, chosen),
    }
