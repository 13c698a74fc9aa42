"""Metrics that follow from machine code alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernelkb.sass.function import SassFunction
from kernelkb.sass.static_chains import find_chains, find_dependent_loads
from kernelkb.sass.static_loops import Code, survey_function
from kernelkb.sass.static_tiles import GROUP_MATRIX, find_tile_reuse

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
