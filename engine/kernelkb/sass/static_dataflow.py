"""Finds which instruction uses the result of which, and the registers that are live."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kernelkb.sass.function import SassFunction
from kernelkb.sass.instruction import Instruction

MAX_TRACED = 6000
"""Instructions of the largest loop or function that is traced: chosen, for the time it takes."""

Results = frozenset[tuple[int, bool]]
"""Instructions whose result a register may hold, and whether of an iteration before."""
Edges = dict[int, set[int]]
"""By user, the producers."""


class Dependences(NamedTuple):
    """Who uses whose result in one pass."""

    order: list[int]
    """Indices, such that a result is written before it is used."""
    within: Mapping[int, Collection[int]]
    """By user, the producers of the same pass."""
    carried: Mapping[int, Collection[int]]
    """By user, the producers of the pass before."""


class _State(NamedTuple):
    """What registers hold."""

    held: dict[str, Results]
    guarded: dict[str, dict[str, Results]]
    """By register and guard, what it holds where that predicate is true."""

    def copy(self) -> _State:
        return _State(dict(self.held), {name: dict(g) for name, g in self.guarded.items()})

    def get_held(self, name: str, guard: str) -> Results:
        found = self.guarded.get(name)
        if found and guard in found:
            return found[guard]
        return self.held.get(name, frozenset())

    def write(self, one: Instruction, index: int) -> None:
        """Note the results of an instruction; one with a predicate may leave the older ones.

        Under the same predicate a register then holds this result and no other.
        """
        own = frozenset({(index, False)})
        for name in one.writes:
            if "P" in name:
                for found in self.guarded.values():
                    found.pop(name, None)
                    found.pop(f"!{name}", None)
            if not one.is_conditional:
                self.guarded.pop(name, None)
                self.held[name] = own
                continue
            opposite = one.guard[1:] if one.guard[0] == "!" else f"!{one.guard}"
            others = self.get_held(name, opposite)
            self.guarded[name] = {opposite: others, one.guard: own}
            self.held[name] = others | own

    def join(self, other: _State) -> None:
        """Add what registers hold on another way to the same instruction."""
        for name, found in other.held.items():
            mine = self.held.get(name)
            self.held[name] = found if mine is None else mine | found
        for name in list(self.guarded):
            theirs = other.guarded.get(name, {})
            both = {
                guard: found | theirs[guard]
                for guard, found in self.guarded[name].items()
                if guard in theirs
            }
            self.guarded[name] = both


def trace_results(function: SassFunction, head: int, body: Collection[int]) -> Dependences:
    """Trace results from instruction to instruction; of a loop inside, one pass is followed.

    Args:
        function: The code.
        head: Where to begin; a jump back to it begins the next pass.
        body: The instructions to follow.
    """
    order = _sort_body(function, head, body)
    position = {index: at for at, index in enumerate(order)}
    before: dict[int, list[int]] = {index: [] for index in order}
    ends = []
    for index in order:
        for successor in function.successors[index]:
            if successor == head:
                ends.append(index)
            elif successor in position and position[successor] > position[index]:
                before[successor].append(index)
    within: Edges = {}
    after = _flow(function, order, before, _State({}, {}), (within, {}), ends)
    carried: Edges = {}
    if ends:
        entry = _State({}, {})
        for end in ends:
            entry.join(after[end])
        held = {name: frozenset((at, True) for at, _ in x) for name, x in entry.held.items()}
        within = {}
        _flow(function, order, before, _State(held, {}), (within, carried), ())
    return Dependences(order, within, carried)


def _flow(
    function: SassFunction, order: list[int], before: Mapping[int, list[int]], entry: _State,
    edges: tuple[Edges, Edges], kept: Collection[int],
) -> dict[int, _State]:  # fmt: skip
    """Note each use of a result; return what registers hold after the instructions to keep.

    Args:
        function: The code.
        order: Indices, each after those that come before it.
        before: By index, where control comes from.
        entry: What registers hold at first.
        edges: Where to note uses: of this pass, and of the one before.
        kept: Instructions whose states are wanted.
    """
    after: dict[int, _State] = {}
    left = Counter(index for found in before.values() for index in found)
    left.update(kept)
    for at, index in enumerate(order):
        state = entry if at == 0 else _State({}, {})
        for number, source in enumerate(before[index]):
            left[source] -= 1
            reached = after[source] if left[source] else after.pop(source)
            if number:
                state.join(reached)
            else:
                state = reached.copy() if left[source] else reached
        one = function.instructions[index]
        for name in one.reads:
            for producer, is_before in state.get_held(name, one.guard):
                edges[is_before].setdefault(index, set()).add(producer)
        state.write(one, index)
        after[index] = state
    return after


def _sort_body(function: SassFunction, head: int, body: Collection[int]) -> list[int]:
    """Return the body in reverse postorder from the head, so that only back edges go backwards."""
    successors = function.successors
    seen, postorder = {head}, []
    stack = [(head, iter(successors[head]))]
    while stack:
        index, following = stack[-1]
        for successor in following:
            if successor in body and successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successors[successor])))
                break
        else:
            postorder.append(index)
            stack.pop()
    return postorder[::-1]


_GENERAL = re.compile(r"R(\d+)")


def find_live_registers(function: SassFunction) -> list[int]:
    """Return the general registers that are live before each instruction: bit N stands for RN.

    What a subroutine reads and writes is not followed, and a write that a predicate decides about
    ends nothing.
    """
    count = len(function.instructions)
    reads, writes = [0] * count, [0] * count
    for index, one in enumerate(function.instructions):
        reads[index] = make_mask(one.reads)
        writes[index] = 0 if one.is_conditional else make_mask(one.writes)
    live = [0] * count
    pending, waiting = list(range(count)), [True] * count
    while pending:
        index = pending.pop()
        waiting[index] = False
        needed = 0
        for successor in function.successors[index]:
            needed |= live[successor]
        before = reads[index] | (needed & ~writes[index])
        if before != live[index]:
            live[index] = before
            for predecessor in function.predecessors[index]:
                if not waiting[predecessor]:
                    waiting[predecessor] = True
                    pending.append(predecessor)
    return live


def make_mask(names: Iterable[str]) -> int:
    """Return the general registers among some as bits."""
    mask = 0
    for name in names:
        if found := _GENERAL.fullmatch(name):
            mask |= 1 << int(found[1])
    return mask
