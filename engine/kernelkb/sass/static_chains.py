"""Finds chains: instructions that wait for the iteration before, and loads that wait for loads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kernelkb.model.answers.static_facts import StaticFact
from kernelkb.sass.function import Instruction
from kernelkb.sass.static_dataflow import (
    MAX_TRACED,
    Code,
    Dependences,
    SassLoop,
    find_place,
    make_fact,
    trace_results,
)

_FIXED = 4
"""Cycles until the result of most arithmetic can be used, from Volta on (Jia et al.: Dissecting the
NVIDIA Volta GPU Architecture via Microbenchmarking, 2018)."""
_CYCLES = {
    "DADD": 8, "DMUL": 8, "DFMA": 8, "DSETP": 8, "DMNMX": 8, "HADD2": 5, "HMUL2": 5, "HFMA2": 5,
    "MUFU": 18, "I2F": 14, "F2I": 14, "F2F": 14, "FRND": 14, "POPC": 14, "FLO": 14, "BREV": 14,
    "SHFL": 22, "LDS": 23, "LDSM": 29, "ATOMS": 29, "LDC": 29, "LDL": 30, "VOTE": 8, "REDUX": 14,
    "HMMA": 32, "IMMA": 32, "DMMA": 32, "QMMA": 32, "LDG": 40, "LD": 40, "ATOMG": 260, "ATOM": 260,
    "TEX": 100, "TLD": 100,
}  # fmt: skip
"""Cycles until a result can be used, at least: a load is taken to hit the nearest cache. Orders of
magnitude (judgement), to tell a long chain from a short one; no gain is computed from them."""
_LOADS = frozenset({"LDG", "LD", "LDS", "TEX", "TLD", "LDL", "ATOM", "ATOMG", "ATOMS"})
_REMOTE = frozenset({"LDG", "LD", "TEX", "TLD", "ATOM", "ATOMG"})
_COPIES = frozenset({"MOV", "IMAD.MOV", "CS2R", "SEL", "FSEL", "UMOV", "R2UR"})
_INDUCTION = frozenset(
    {"IADD3", "VIADD", "IADD", "LEA", "UIADD3", "ULEA", "UIADD", "ISETP", "UISETP", "IMAD", "LOP3",
     "ULOP3", "SHF", "USHF", "MOV", "UMOV", "IADD64", "UIADD64", "PLOP3", "UPLOP3", "SEL", "USEL",
     "IMNMX", "VIMNMX", "VIADDMNMX", "BMOV", "R2UR", "PRMT"}
)  # fmt: skip
_MATRIX = ("HMMA", "IMMA", "DMMA", "QMMA", "HGMMA", "QGMMA", "IGMMA", "BMMA")
_MIN_INTEGER = 6
"""Integer instructions one after another; fewer count the loop or move a pointer."""
_NOTABLE_RATIO = 2.0
"""Cycles of the chain over instructions of the loop: so many warps a scheduler are needed."""
_MIN_INDIRECT = 3
_MAX_ALIKE = 4


class _Chain(NamedTuple):
    """The slowest way from a result to itself in the next iteration."""

    cycles: int
    path: tuple[int, ...]
    loop: SassLoop


def find_chains(code: Code) -> Iterator[StaticFact]:
    """Yield the slowest chain of each loop: a pointer chase, or else arithmetic."""
    told: set[int] = set()
    for loop in code.loops:
        if len(loop.body) > MAX_TRACED:
            continue
        dependences = trace_results(code.function, loop.head, loop.body)
        chains = [c for c in _list_chains(code, loop, dependences) if not told & set(c.path)]
        chases = [c for c in chains if _has_load(code, c)]
        plain = [c for c in chains if c not in chases and _is_told(code, c)]
        for chain in (*_select_slowest(chases), *_select_slowest(plain)):
            told |= set(chain.path)
            if chain in chases:
                yield _make_chase(code, chain)
            elif loop.is_main:
                yield _make_chain(code, chain)


def _select_slowest(chains: list[_Chain]) -> list[_Chain]:
    return [max(chains, key=lambda chain: (chain.cycles, chain.path))] if chains else []


def _list_chains(code: Code, loop: SassLoop, dependences: Dependences) -> Iterator[_Chain]:
    """Yield the slowest way for each result that the next iteration uses.

    Of many alike, such as the accumulators of a tile, some are followed.
    """
    instructions = code.function.instructions
    alike: Counter[tuple[object, ...]] = Counter()
    for start, ends in sorted(dependences.carried.items()):
        key = (
            find_place(code.function, start), instructions[start].operation,
            *sorted({instructions[end].operation for end in ends}),
        )  # fmt: skip
        alike[key] += 1
        if alike[key] > _MAX_ALIKE:
            continue
        best = _find_slowest_ways(code, start, dependences)
        for end in sorted(set(ends) & best.keys()):
            path = [end]
            while path[-1] != start:
                path.append(best[path[-1]][1])
            yield _Chain(best[end][0], tuple(path[::-1]), loop)


def _find_slowest_ways(
    code: Code, start: int, dependences: Dependences
) -> Mapping[int, tuple[int, int]]:
    """Return the cycles to each instruction that a result reaches, and the one before it."""
    best = {start: (_get_cycles(code.function.instructions[start]), start)}
    for index in dependences.order:
        if index == start:
            continue
        reached = [
            (best[producer][0], producer)
            for producer in dependences.within.get(index, ())
            if producer in best
        ]
        if reached:
            cycles, producer = max(reached)
            own = _get_cycles(code.function.instructions[index])
            best[index] = cycles + own, producer
    return best


def _get_cycles(one: Instruction) -> int:
    return _CYCLES.get(one.opcode, _FIXED)


def _has_load(code: Code, chain: _Chain) -> bool:
    return any(code.function.instructions[index].opcode in _LOADS for index in chain.path)


def _is_told(code: Code, chain: _Chain) -> bool:
    """Whether a chain is arithmetic and not the loop's own counters and pointers."""
    names = [code.function.instructions[index].opcode for index in chain.path]
    if all(name in _INDUCTION or name.startswith("U") for name in names):
        return len(names) >= _MIN_INTEGER
    return True


def _make_chase(code: Code, chain: _Chain) -> StaticFact:
    instructions = [code.function.instructions[index] for index in chain.path]
    loads = [i for i in chain.path if code.function.instructions[i].opcode in _LOADS]
    opcode = code.function.instructions[loads[0]].opcode
    atomic = any(one.opcode.startswith("ATOM") for one in instructions)
    what = "an atomic operation that repeats until it succeeds" if atomic else (
        f"{opcode} whose address comes from its own result of the iteration before"
    )  # fmt: skip
    where = "a pointer chase" if not atomic else "a retry loop"
    words = f"{where}: {what}" + (f", {len(loads)} an iteration" if len(loads) > 1 else "")
    return make_fact(code, "pointer-chase", words, loads, amount=chain.cycles, notable=True)


def _make_chain(code: Code, chain: _Chain) -> StaticFact:
    named = [i for i in chain.path if code.function.instructions[i].opcode not in _COPIES]
    counts = Counter(code.function.instructions[i].opcode for i in named or chain.path)
    size = len(chain.loop.body)
    names = ", ".join(f"{count} {name}" for name, count in counts.most_common(3))
    words = (
        f"a chain through the loop, {names}: {chain.cycles} cycles an iteration at least, in a "
        f"loop of {size} instructions"
    )
    is_matrix = any(name in _MATRIX for name in counts)
    notable = not is_matrix and chain.cycles >= _NOTABLE_RATIO * size
    return make_fact(
        code, "chain", words, named or chain.path, amount=chain.cycles, notable=notable
    )


def find_dependent_loads(code: Code) -> Iterator[StaticFact]:
    """Yield the longest row of loads of which each has its address from the one before.

    A load counts whose predicate or data comes from one, too, as where an index decides.
    """
    traced = code.dependences
    if traced is None:
        return
    count: dict[int, int] = {}
    previous: dict[int, int | None] = {}
    for index in traced.order:
        producers = [at for at in traced.within.get(index, ()) if count.get(at)]
        best = max(producers, key=lambda at: (count[at], -at), default=None)
        is_load = code.function.instructions[index].opcode in _REMOTE
        count[index] = is_load + (count[best] if best is not None else 0)
        previous[index] = best
    last = max(count, key=lambda at: (count[at], -at), default=None)
    longest = []
    while last is not None:
        if code.function.instructions[last].opcode in _REMOTE:
            longest.append(last)
        last = previous[last]
    if len(longest) >= 2:
        words = f"{len(longest)} loads one after another: each has its address from the one before"
        yield make_fact(
            code, "dependent-loads", words, longest,
            amount=len(longest), notable=len(longest) >= _MIN_INDIRECT,
        )  # fmt: skip
