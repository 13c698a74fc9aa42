"""A function of machine code: its instructions in order, their lines, and its control flow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kernelkb.sass.instruction import Instruction

_BRANCH_TABLE = re.compile(r"\.L_x_\d+")


class Place(NamedTuple):
    """Where in the source an instruction comes from."""

    file: str
    line: int


class Function(NamedTuple):
    """A function of machine code."""

    name: str
    """Mangled."""
    instructions: tuple[Instruction, ...]
    places: tuple[tuple[Place, ...], ...]
    """Of each instruction, from its own line to the line of the kernel that the calls around it,
    which were inlined, stand in; empty where it has no line."""
    labels: Mapping[str, int]
    """Index of the instruction at each label, and at each address in hexadecimal."""

    def list_predecessors(self) -> list[list[int]]:
        """Return for each instruction the indices of those that may run just before it."""
        found: list[list[int]] = [[] for _ in self.instructions]
        for index, successors in enumerate(self.list_successors()):
            for successor in successors:
                found[successor].append(index)
        return found

    def list_successors(self) -> list[list[int]]:
        """Return for each instruction the indices of those that may run just after it.

        A call is taken to return; where a return goes is not followed.
        """
        joins = self._find_joins()
        count = len(self.instructions)
        found = []
        for index, one in enumerate(self.instructions):
            after = set() if one.ends_flow or index + 1 == count else {index + 1}
            if one.opcode in ("BRA", "JMP", "CALL", "BREAK") and one.target in self.labels:
                after.add(self.labels[one.target])
            if one.opcode in ("BRX", "BRXU"):
                after |= {
                    self.labels[x] for x in _BRANCH_TABLE.findall(one.text) if x in self.labels
                }
            if one.opcode == "BSYNC":
                after |= joins.get(next(iter(one.reads), ""), set())
            found.append(sorted(after))
        return found

    def _find_joins(self) -> dict[str, set[int]]:
        """Return where each convergence barrier (``B0``) lets diverged threads go on."""
        found: dict[str, set[int]] = {}
        for one in self.instructions:
            if one.opcode == "BSSY" and one.target in self.labels:
                for barrier in one.writes:
                    found.setdefault(barrier, set()).add(self.labels[one.target])
        return found

    def find_loops(self) -> list[frozenset[int]]:
        """Return the bodies of natural loops as indices, the innermost (smallest) first."""
        predecessors = self.list_predecessors()
        loops = [
            _collect_body(head, index, predecessors)
            for index, successors in enumerate(self.list_successors())
            for head in successors
            if head < index and self.instructions[index].opcode != "CALL"
        ]
        return sorted(loops, key=len)


def _collect_body(head: int, last: int, predecessors: Sequence[Sequence[int]]) -> frozenset[int]:
    """Return what can reach the end of a loop without passing its head."""
    body, pending = {head, last}, [last] if last != head else []
    while pending:
        for before in predecessors[pending.pop()]:
            if before not in body and before >= head:
                body.add(before)
                pending.append(before)
    return frozenset(body)
