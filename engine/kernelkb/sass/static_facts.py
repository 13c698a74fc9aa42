"""Collects what the machine code of a function shows without running it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from kernelkb.model.answers.static_facts import KernelFacts, StaticFact, StaticKind, StaticPlace
from kernelkb.model.entries.fix import CodeCount
from kernelkb.sass.function import Instruction, SassFunction
from kernelkb.sass.static_chains import find_chains, find_dependent_loads
from kernelkb.sass.static_dataflow import Code, find_place, make_fact, survey_function
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
)

_MANY = 64
"""Live registers a thread from which the register file holds no more than half of the warps: it has
65,536 of them for 2048 threads (CUDA programming guide, compute capabilities 7.0 to 10.0)."""

_WARP_MATRIX = re.compile(r"[HIDBQO]MMA|[HIQBO]GMMA|UTC\w*MMA\w*")
_DOUBLE = frozenset({"DADD", "DMUL", "DFMA", "DSETP", "DMNMX"})
_INDIRECT = ("pointer-chase", "dependent-loads")

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
    return {
        **told,
        "mma_opcode_count": float(sum(bool(_WARP_MATRIX.fullmatch(name)) for name in opcodes)),
        "warpgroup_opcode_count": float(
            sum(bool(GROUP_MATRIX.fullmatch(name)) for name in opcodes)
        ),
        "fp64_opcode_count": float(sum(name in _DOUBLE for name in opcodes)),
        "dependent_load": float(any(map(_loads_addresses, codes))),
    }


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
