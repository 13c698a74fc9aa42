"""Finds where a function needs most registers."""

from __future__ import annotations

from collections import Counter

from kernelkb.model.answers.static_facts import StaticFact
from kernelkb.sass.static_loops import Code, find_place, make_fact

_MANY = 64
"""Live registers a thread from which the register file holds no more than half of the warps: it has
65,536 of them for 2048 threads (CUDA programming guide, compute capabilities 7.0 to 10.0)."""


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
