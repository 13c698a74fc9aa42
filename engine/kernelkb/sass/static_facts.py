"""Collects what the machine code of a function shows without running it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kernelkb.model.answers.source_place import KernelFacts, StaticFact, StaticKind, StaticPlace
from kernelkb.model.entries.fix import CodeCount
from kernelkb.sass.function import Instruction, SassFunction
from kernelkb.sass.static_dataflow import (
    Code,
    Dependences,
    SassLoop,
    find_place,
    make_fact,
    survey_function,
)
from kernelkb.sass.static_instructions import (
    GROUP_MATRIX,
    find_doubles,
    find_exact_functions,
    find_integer_divisions,
    find_local,
    find_matrix_products,
    find_neighbours,
    find_serialised_groups,
    find_shares,
    find_tile_reuse,
    find_uncontracted,
    find_unrolling,
    find_widths,
    measure_integers,
    measure_narrow_products,
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
_MATRIX_PRODUCTS = ("HMMA", "IMMA", "DMMA", "QMMA", "HGMMA", "QGMMA", "IGMMA", "BMMA")
_MIN_INTEGER = 6
"""Integer instructions one after another; fewer count the loop or move a pointer."""
_NOTABLE_RATIO = 2.0
"""Cycles of the chain over instructions of the loop: so many warps a scheduler are needed."""
_MIN_INDIRECT = 3
_MAX_ALIKE = 4

_MANY = 64
"""Live registers a thread from which the register file holds no more than half of the warps: it has
65,536 of them for 2048 threads (CUDA programming guide, compute capabilities 7.0 to 10.0)."""

_WARP_MATRIX = re.compile(r"[HIDBQO]MMA|[HIQBO]GMMA|UTC\w*MMA\w*")
_DOUBLE = frozenset({"DADD", "DMUL", "DFMA", "DSETP", "DMNMX"})
_INDIRECT = ("pointer-chase", "dependent-loads")

_OTHER_PYTHON = ("_Z", "kernel_cutlass")
"""Beginnings of the names of functions of Numba and the CuTe DSL, whose lines are Python's."""

_COMMENT = re.compile(r"//.*|/\*.*?\*/")
_ARRAY = re.compile(
    r"^(?!.*(?:__shared__|__constant__|extern)).*?\b[\w:>]+\s+(\w+)\s*\[[^\]]*\]", re.MULTILINE
)
_INDEXED = re.compile(r"\b(\w+)\s*\[")
_DOUBLE_LITERAL = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?(?![\w.])")
_DIVISOR = re.compile(
    r"[/%]=?\s*(?:static_cast<[^<>]*>\s*\()?(?:\([\w:\s]+\)\s*)?([A-Za-z_]\w*)(?!\w*\s*[(<])"
)
_FUNCTION = re.compile(
    r"\b(?:std::)?((?:sqrt|rsqrt|pow|exp\w?|log\w*|div|fdiv|hypot|norm\w*)f?)\s*\("
)
_TRIGONOMETRY = re.compile(r"\b(?:std::)?((?:sin|cos|tan|sincos)(?:pi)?f?)\s*\(")
_LOCAL: tuple[StaticKind, ...] = ("local-array", "spill")
_MATRIX = re.compile(r"[HIDBQO]MMA")
_GROUP_MATRIX = re.compile(r"[HIQBO]GMMA|UTC\w*MMA\w*")
_GENERAL = re.compile(r"R(\d+)")


class _Chain(NamedTuple):
    """The slowest way from a result to itself in the next iteration."""

    cycles: int
    path: tuple[int, ...]
    loop: SassLoop


def find_chains(code: Code) -> Iterator[StaticFact]:
    """Yield the slowest chain of each loop: a pointer chase, or else arithmetic."""
    told: set[int] = set()
    for loop in code.loops:
        dependences = code.loop_dependences.get(loop.head)
        if dependences is None:
            continue
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
    is_matrix = any(name in _MATRIX_PRODUCTS for name in counts)
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


def find_peak(code: Code) -> list[StaticFact]:
    """Return where most registers are live."""
    if not code.own:
        return []
    counts = {index: code.live[index].bit_count() for index in code.own}
    peak = max(counts.values())
    at = [index for index, count in counts.items() if count == peak]
    lines = Counter(find_place(code.function, index) for index in at)
    most = lines.most_common(1)[0][0]
    chosen = [index for index in at if find_place(code.function, index) == most]
    words = f"{peak} registers are live at the peak"
    return [make_fact(code, "registers", words, chosen, amount=peak, notable=peak >= _MANY)]


_SEARCHES = (
    find_integer_divisions, find_doubles, find_exact_functions, find_chains, find_dependent_loads,
    find_widths, find_neighbours, find_matrix_products, find_serialised_groups, find_uncontracted,
    find_peak, find_unrolling, find_shares,
)  # fmt: skip


def find_static_facts(function: SassFunction, spill_bytes: int | None = None) -> KernelFacts:
    """Return what the compiler did with a function, notable facts first.

    Args:
        function: With lines, for facts with places.
        spill_bytes: What ptxas says that it spills; None: unknown.
    """
    code = survey_function(function)
    facts: list[StaticFact] = [*find_local(code, spill_bytes)]
    for search in _SEARCHES:
        facts += search(code)
    facts.sort(key=lambda fact: not fact["notable"])
    return {"kernel": function.name, "instruction_count": len(code.own), "facts": facts}


def add_source_text(found: KernelFacts, sources: Mapping[str, str]) -> KernelFacts:
    """Return the facts with the text of their lines, and the names that these tell.

    Args:
        found: Facts about one function.
        sources: Text of files, by path as in the places.
    """
    lines = {path: text.splitlines() for path, text in sources.items()}
    arrays = {path: set(_ARRAY.findall(_COMMENT.sub("", text))) for path, text in sources.items()}
    facts = [_add_to_fact(fact, lines, arrays) for fact in found["facts"]]
    return {**found, "facts": facts}


def _add_to_fact(
    fact: StaticFact, lines: Mapping[str, list[str]], arrays: Mapping[str, set[str]]
) -> StaticFact:
    places: list[StaticPlace] = []
    for place in fact["places"]:
        rows = lines.get(place["file"], [])
        text = rows[place["line"] - 1].strip() if 0 < place["line"] <= len(rows) else ""
        names = find_names(fact["kind"], text, arrays.get(place["file"], set()))
        places.append({**place, "text": text, "names": names})
    return {**fact, "places": places}


def find_names(kind: StaticKind, text: str, arrays: set[str]) -> list[str]:
    """Return what a fact of a line is about; empty where the line does not tell.

    Args:
        kind: Which fact.
        text: The line.
        arrays: Names of the arrays that the file declares outside of shared memory.
    """
    text = _COMMENT.sub("", text)
    if kind in _LOCAL:
        indexed = [name for name in _INDEXED.findall(text) if name in arrays]
        found = indexed or _TRIGONOMETRY.findall(text)
    elif kind == "fp64":
        found = _DOUBLE_LITERAL.findall(text)
    elif kind in ("integer-division", "precise-division"):
        found = _DIVISOR.findall(text)
        found += _FUNCTION.findall(text) if kind == "precise-division" else []
    else:
        found = []
    return list(dict.fromkeys(found))


def measure_code(functions: Iterable[SassFunction]) -> dict[str, float]:
    """Return the metrics of some functions together, by metric id; empty without readable code.

    Subroutines that the compiler adds, such as those of exact divisions, do not count.
    """
    codes = [survey_function(one) for one in functions if one.is_readable]
    if not codes:
        return {}
    opcodes = [code.function.instructions[at].opcode for code in codes for at in code.own]
    reuse = [find_tile_reuse(code) for code in codes]
    told = {"tile_reuse": float(any(reuse))} if any(reuse) or None not in reuse else {}
    products = [share for code in codes if (share := measure_narrow_products(code)) is not None]
    told |= {"narrow_product_share": max(products)} if products else {}
    return {
        **told,
        "mma_opcode_count": float(sum(bool(_WARP_MATRIX.fullmatch(name)) for name in opcodes)),
        "warpgroup_opcode_count": float(
            sum(bool(GROUP_MATRIX.fullmatch(name)) for name in opcodes)
        ),
        "fp64_opcode_count": float(sum(name in _DOUBLE for name in opcodes)),
        "dependent_load": float(any(map(_loads_addresses, codes))),
        "spilled_access_share": _measure_spilled_share(codes),
        **measure_integers(codes),
        **_name_language(codes),
    }


def _name_language(codes: Iterable[Code]) -> dict[str, float]:
    """Return that functions are Triton's: their lines are Python's, their names no other tool's."""
    functions = [code.function for code in codes]
    is_scripted = all(
        any(chain and chain[-1].file.endswith(".py") for chain in one.places)
        and not one.name.startswith(_OTHER_PYTHON)
        for one in functions
    )
    return {"triton_kernel": 1.0} if is_scripted else {}


def _measure_spilled_share(codes: Iterable[Code]) -> float:
    """Return the share of the accesses to local memory that are of spilled registers."""
    found: Counter[StaticKind] = Counter()
    for fact in (fact for code in codes for fact in find_local(code)):
        found[fact["kind"]] += fact["count"]
    return found["spill"] / found.total() if found else 0.0


def _loads_addresses(code: Code) -> bool:
    """Return whether a load in a loop takes its address from another load, or from its own."""
    facts = [*find_chains(code), *find_dependent_loads(code)]
    return any(fact["kind"] in _INDIRECT and fact["loop_depth"] > 0 for fact in facts)


_KINDS: dict[CodeCount, Callable[[Instruction], bool]] = {
    "wide_loads": lambda one: one.opcode in ("LDG", "LD") and _is_wide(one),
    "wide_stores": lambda one: one.opcode in ("STG", "ST") and _is_wide(one),
    "wide_shared_loads": lambda one: one.opcode == "LDS" and _is_wide(one),
    "shared_loads": lambda one: one.opcode in ("LDS", "LDSM"),
    "shared_stores": lambda one: one.opcode in ("STS", "LDGSTS"),
    "async_copies": lambda one: one.opcode == "LDGSTS",
    "bulk_copies": lambda one: one.opcode.startswith(("UBLKCP", "UTMALDG", "UTMASTG")),
    "matrix": lambda one: bool(_MATRIX.fullmatch(one.opcode)),
    "group_matrix": lambda one: bool(_GROUP_MATRIX.fullmatch(one.opcode)),
    "matrix_loads": lambda one: one.opcode == "LDSM",
    "fp64": lambda one: one.opcode in _DOUBLE,
    "packed_half": lambda one: one.opcode in ("HFMA2", "HADD2", "HMUL2"),
    "shuffles": lambda one: one.opcode in ("SHFL", "REDUX"),
    "shared_atomics": lambda one: one.opcode == "ATOMS",
    "global_atomics": lambda one: one.opcode in ("ATOMG", "ATOM", "RED", "REDG"),
    "local": lambda one: one.opcode in ("LDL", "STL"),
    "barriers": lambda one: one.opcode == "BAR",
}


def count_opcodes(functions: Iterable[SassFunction]) -> dict[CodeCount, int]:
    """Return how many instructions of each kind there are, and the most registers of a function."""
    found: Counter[CodeCount] = Counter()
    registers = 0
    for function in functions:
        for one in function.instructions:
            found.update(kind for kind, matches in _KINDS.items() if matches(one))
            numbers = [int(n[1]) for name in one.writes if (n := _GENERAL.fullmatch(name))]
            registers = max([registers, *(number + 1 for number in numbers)])
    return {**found, "registers": registers} if registers else dict(found)


def _is_wide(one: Instruction) -> bool:
    return "128" in one.modifiers or "64" in one.modifiers
