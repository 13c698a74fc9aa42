"""Metrics that follow from machine code alone, and counts that tell which change was made."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

from kernelkb.model.entries.fix import CodeCount
from kernelkb.sass.function import SassFunction
from kernelkb.sass.instruction import Instruction
from kernelkb.sass.static_chains import find_chains, find_dependent_loads
from kernelkb.sass.static_loops import Code, survey_function
from kernelkb.sass.static_memory import GROUP_MATRIX, find_tile_reuse

_WARP_MATRIX = re.compile(r"[HIDBQO]MMA|[HIQBO]GMMA|UTC\w*MMA\w*")
_DOUBLE = frozenset({"DADD", "DMUL", "DFMA", "DSETP", "DMNMX"})
_INDIRECT = ("pointer-chase", "dependent-loads")


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


_MATRIX = re.compile(r"[HIDBQO]MMA")
_GROUP_MATRIX = re.compile(r"[HIQBO]GMMA|UTC\w*MMA\w*")

_GENERAL = re.compile(r"R(\d+)")

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
