"""Further cases of a task: some of the rows of its own inputs, where its model takes them.

A task's file makes inputs of one size. Rows are those of the first dimension, a batch mostly.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from kernelkb.measure.worker.judge.compare.row_pieces import count_rows, has_rows
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase
from kernelkb.measure.worker.shared.memory import array_bytes
from kernelkb.measure.worker.shared.messages.specs import ArraySpec, CaseSpec

_MAX_BYTES = 2**28
"""Of inputs and outputs: larger ones take seconds to compare."""
_SpecT = TypeVar("_SpecT", bound=ArraySpec)


def make_row_cases(case: KernelCase) -> list[CaseSpec]:
    """Return cases of 1, of all but one, and of a drawn number of a case's rows.

    None where its outputs and some inputs do not share a first dimension, are large, or memory is
    to be saved.
    """
    rows = count_rows(case)
    size = sum(map(array_bytes, (*case.input_specs, *case.output_specs)))
    if rows < 2 or size > _MAX_BYTES or case.plan.in_pieces:
        return []
    counts = {1, rows - 1, random.SystemRandom().randrange(1, rows)}
    return [_make_row_case(case, rows, count) for count in sorted(counts)]


def _make_row_case(case: KernelCase, rows: int, count: int) -> CaseSpec:
    spec = case.case_spec.copy()
    spec["name"] = f"{count} of its {rows} rows"
    spec["selftest"], spec["distributions"] = False, []
    spec["inputs"] = [
        value if "value" in value else _take_rows([value], rows, count)[0]
        for value in spec["inputs"]
    ]
    spec["outputs"] = _take_rows(spec["outputs"], rows, count)
    return spec


def _take_rows(specs: Sequence[_SpecT], rows: int, count: int) -> list[_SpecT]:
    taken = []
    for spec in specs:
        one = spec.copy()
        if has_rows(spec, rows):
            one["shape"] = [count, *spec["shape"][1:]]
        taken.append(one)
    return taken
