"""Collects what the machine code of a function shows without running it."""

from __future__ import annotations

from kernelkb.model.answers.static_facts import KernelFacts, StaticFact
from kernelkb.sass.function import SassFunction
from kernelkb.sass.static_arithmetic import (
    find_doubles,
    find_exact_functions,
    find_integer_divisions,
    find_matrix_products,
    find_serialised_groups,
    find_shares,
    find_uncontracted,
    find_unrolling,
)
from kernelkb.sass.static_chains import find_chains, find_dependent_loads
from kernelkb.sass.static_loops import survey_function
from kernelkb.sass.static_memory import find_local, find_neighbours, find_widths
from kernelkb.sass.static_peak import find_peak

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
