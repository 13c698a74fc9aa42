"""Counts the kinds of instructions that tell which change was made to a kernel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

from kernelkb.model.entries.fix import CodeCount
from kernelkb.sass.function import SassFunction
from kernelkb.sass.instruction import Instruction

_MATRIX = re.compile(r"[HIDBQO]MMA")
_GROUP_MATRIX = re.compile(r"[HIQBO]GMMA|UTC\w*MMA\w*")
_DOUBLE = frozenset({"DADD", "DMUL", "DFMA", "DSETP", "DMNMX"})
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
