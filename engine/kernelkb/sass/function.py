"""A function of machine code: its instructions in order, their lines, and its control flow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from kernelkb.sass.instruction import Instruction

_BRANCH_TABLE = re.compile(r"\.L_x_\d+")


class Place(NamedTuple):
    """Where in the source an instruction comes from."""

    file: str
    line: int


@dataclass(frozen=True)
class SassFunction:
    """A function of machine code."""

    name: str
    """Mangled."""
    instructions: tuple[Instruction, ...]
    places: tuple[tuple[Place, ...], ...]
    """Of each instruction, from its own line to the line of the kernel that the calls around it,
    which were inlined, stand in; empty where it has no line."""
    labels: Mapping[str, int]
    """Index of the instruction at each label, and at each address in hexadecimal."""

    @property
    def is_readable(self) -> bool:
        """Whether its instructions are known, not their places alone."""
        return all(one.opcode for one in self.instructions)

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """Of each instruction the indices of those that may run just before it."""
        return _invert(self.successors)

    @cached_property
    def successors(self) -> list[list[int]]:
        """Of each instruction the indices of those that may run just after it.

        A call is taken to return; where a return goes is not followed.
        """
        found = [self._list_jumps(index) for index in range(len(self.instructions))]
        for index, joins in self._find_joins(found).items():
            found[index] |= joins
        return [sorted(after) for after in found]

    def _list_jumps(self, index: int) -> set[int]:
        """Return where an instruction itself says that control goes."""
        one = self.instructions[index]
        after = set() if one.ends_flow or index + 1 == len(self.instructions) else {index + 1}
        if one.opcode in ("BRA", "JMP", "CALL", "BREAK") and one.target in self.labels:
            after.add(self.labels[one.target])
        if one.opcode in ("BRX", "BRXU"):
            after |= {self.labels[x] for x in _BRANCH_TABLE.findall(one.text) if x in self.labels}
        return after

    def _find_joins(self, successors: Sequence[set[int]]) -> dict[int, set[int]]:
        """Return where each ``BSYNC`` lets diverged threads go on: as the ``BSSY`` before it says.

        One barrier (``B0``) serves many branches of a function, one after another.
        """
        starts = [
            (index, next(iter(one.writes)), self.labels[one.target])
            for index, one in enumerate(self.instructions)
            if one.opcode == "BSSY" and one.writes and one.target in self.labels
        ]
        joins: dict[int, set[int]] = {}
        is_changed = True
        while is_changed:
            is_changed = False
            for start, barrier, target in starts:
                for index in self._find_syncs(start, barrier, successors, joins):
                    targets = joins.setdefault(index, set())
                    is_changed |= target not in targets
                    targets.add(target)
        return joins

    def _find_syncs(
        self, start: int, barrier: str, successors: Sequence[set[int]],
        joins: Mapping[int, set[int]],
    ) -> set[int]:  # fmt: skip
        """Return each ``BSYNC`` of a barrier that comes after its ``BSSY`` before another one."""
        seen: set[int] = set()
        pending, found = list(successors[start]), set()
        while pending:
            index = pending.pop()
            if index in seen:
                continue
            seen.add(index)
            one = self.instructions[index]
            if one.opcode == "BSYNC" and barrier in one.reads:
                found.add(index)
            elif one.opcode != "BSSY" or barrier not in one.writes:
                pending += [*successors[index], *joins.get(index, ())]
        return found

    def find_loops(self) -> list[frozenset[int]]:
        """Return the bodies of natural loops as indices, the innermost (smallest) first.

        A jump back is no loop where its target can be passed by: then it only joins the main path
        again, from code that the compiler put behind it.
        """
        successors, predecessors = self.successors, self.predecessors
        entries = [0, *(at for at, before in enumerate(predecessors) if at and not before)]
        backward: dict[int, list[int]] = {}
        for index, after in enumerate(successors):
            for head in after:
                if head < index and self.instructions[index].opcode != "CALL":
                    backward.setdefault(head, []).append(index)
        loops = []
        for head, ends in backward.items():
            passed_by = _find_reachable(entries, head, successors)
            loops += [_collect_body(head, at, predecessors) for at in ends if at not in passed_by]
        return sorted(loops, key=len)


def _invert(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in successors]
    for index, after in enumerate(successors):
        for successor in after:
            found[successor].append(index)
    return found


def _find_reachable(
    entries: Sequence[int], without: int, successors: Sequence[Sequence[int]]
) -> set[int]:
    """Return what can be reached without passing an instruction."""
    seen = {at for at in entries if at != without}
    pending = list(seen)
    while pending:
        for after in successors[pending.pop()]:
            if after != without and after not in seen:
                seen.add(after)
                pending.append(after)
    return seen


def _collect_body(head: int, last: int, predecessors: Sequence[Sequence[int]]) -> frozenset[int]:
    """Return what can reach the end of a loop without passing its head."""
    body, pending = {head, last}, [last] if last != head else []
    while pending:
        for before in predecessors[pending.pop()]:
            if before not in body and before >= head:
                body.add(before)
                pending.append(before)
    return frozenset(body)


_MAX_DEPTH = 4
"""Subroutines that call one another."""


def fill_called_places(function: SassFunction, executed: Mapping[int, float]) -> SassFunction:
    """Return a function in which code without lines has those of its call.

    Args:
        function: Disassembled, with the labels of its subroutines.
        executed: How often each instruction ran; of several calls the most frequent one counts.
    """
    calls: dict[int, list[int]] = {}
    for index, one in enumerate(function.instructions):
        if one.opcode == "CALL" and one.target in function.labels:
            calls.setdefault(function.labels[one.target], []).append(index)
    starts = sorted(calls)
    places = list(function.places)
    for _ in range(_MAX_DEPTH):
        for start, end in pairwise([*starts, len(places)]):
            callers = [index for index in calls[start] if places[index]]
            caller = max(callers, key=lambda index: executed.get(index, 0.0), default=None)
            if caller is None:
                continue
            for index in range(start, end):
                places[index] = places[index] or places[caller]
    return replace(function, places=tuple(places))
