"""Traces values through machine code, and finds its loops."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from kernelkb.model.answers.source_place import StaticFact, StaticKind, StaticPlace
from kernelkb.sass.function import (
    Instruction,
    Place,
    SassFunction,
    get_folder,
    list_operand_registers,
)

MAX_TRACED = 6000
"""Instructions of the largest loop or function that is traced: chosen, for the time it takes."""

Results = frozenset[tuple[int, bool]]
"""Instructions whose result a register may hold, and whether of an iteration before."""
Edges = dict[int, set[int]]
"""By user, the producers."""

_SUBROUTINE = "$__internal"
"""In the label of a subroutine that the compiler adds, such as that of an exact division."""

_WORK = ("LD", "ST", "UTMA", "UBLK", "RED", "ATOM")
_MAX_WAIT = 16
"""Instructions of the longest loop that only waits."""

_GENERAL = re.compile(r"R(\d+)")

_EXCHANGES = frozenset({"SHFL", "REDUX"})
_SUMS = _EXCHANGES | {
    "FADD", "DADD", "HADD2", "IADD3", "IADD", "VIADD", "IMAD", "MOV", "SEL", "FSEL", "STS", "LDS",
    "CS2R",
}  # fmt: skip
"""What a sum of lanes, warps and passes consists of."""
_PRODUCTS_AND_SUMS = frozenset({"FFMA", "DFMA", "HFMA2"})
_PER_PASS = frozenset({"ST", "STG", "RED", "REDG", "ATOM", "ATOMG", "STL"})


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


def measure_register_use(
    function: SassFunction, executed: Mapping[int, float]
) -> tuple[int, tuple[float, ...]]:
    """Return how many general registers are live at once, and how often each is accessed.

    Args:
        function: With its control flow.
        executed: Times that each instruction ran.

    Returns:
        The registers; and of all executed instructions the share that reads or writes each,
        ascending.
    """
    counts: Counter[str] = Counter()
    for index, one in enumerate(function.instructions):
        for name in {*one.reads, *one.writes}:
            if _GENERAL.fullmatch(name):
                counts[name] += executed.get(index, 0.0)  # type: ignore[assignment]  # a float
    total = sum(executed.values()) or 1.0
    live = max((mask.bit_count() for mask in find_live_registers(function)), default=0)
    return live, tuple(sorted(count / total for count in counts.values()))


def make_mask(names: Iterable[str]) -> int:
    """Return the general registers among some as bits."""
    mask = 0
    for name in names:
        if found := _GENERAL.fullmatch(name):
            mask |= 1 << int(found[1])
    return mask


class SassLoop(NamedTuple):
    """A natural loop; those of one head are one loop."""

    head: int
    body: frozenset[int]
    depth: int
    """1: in no other loop."""
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

    @cached_property
    def loop_dependences(self) -> dict[int, Dependences]:
        """The same in one pass of each loop, by its head; without loops too large to trace."""
        return {
            loop.head: trace_results(self.function, loop.head, loop.body)
            for loop in self.loops
            if len(loop.body) <= MAX_TRACED
        }

    @cached_property
    def producers(self) -> Edges | None:
        """By user, the producers of what it uses, of earlier passes too; None if too large."""
        if self.dependences is None:
            return None
        found: Edges = {}
        for traced in (self.dependences, *self.loop_dependences.values()):
            for edges in (traced.within, traced.carried):
                for user, sources in edges.items():
                    found.setdefault(user, set()).update(sources)
        return found

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
    return [SassLoop(head, body, depth[head], head in main) for head, body in ordered]


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
    folder = get_folder(chain[-1].file)
    return next(place for place in chain if get_folder(place.file) == folder)


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


def list_looped_sums(code: Code) -> list[int]:
    """Return the shuffles of loops that only add up, whose sums one step after the loop could."""
    found: list[int] = []
    for loop in code.loops:
        if loop.is_main and loop.head in code.loop_dependences:
            shuffles = _list_shuffles(code, loop)
            if shuffles and _are_added(code, loop, shuffles):
                found += shuffles
    return found


def _list_shuffles(code: Code, loop: SassLoop) -> list[int]:
    """Return the shuffles of a loop; none where each pass stores its own results."""
    instructions = code.function.instructions
    if any(instructions[at].opcode in _PER_PASS for at in loop.body):
        return []
    return [at for at in sorted(loop.body) if instructions[at].opcode in _EXCHANGES]


def _are_added(code: Code, loop: SassLoop, shuffles: list[int]) -> bool:
    """Return whether all that follows from shuffles is added, through shared memory too."""
    instructions = code.function.instructions
    traced = code.loop_dependences[loop.head]
    users: dict[int, set[int]] = defaultdict(set)
    for edges in (traced.within, traced.carried):
        for user, sources in edges.items():
            for source in sources:
                users[source].add(user)
    later = [at for at in loop.body if at > shuffles[0] and instructions[at].opcode == "LDS"]
    seen: set[int] = set()
    pending = list(shuffles)
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen.add(at)
        reached = users[at] | set(later if instructions[at].opcode == "STS" else ())
        if not all(_is_sum(instructions[at], instructions[user]) for user in reached):
            return False
        pending += reached
    return True


def _is_sum(term: Instruction, one: Instruction) -> bool:
    """Return whether an instruction adds or passes on a term: of a product and sum, the addend."""
    if one.opcode in _PRODUCTS_AND_SUMS:
        return not term.writes & list_operand_registers(one, 1, 2)
    return one.opcode in _SUMS
