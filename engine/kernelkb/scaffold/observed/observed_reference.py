"""Torch code for an observed call of compiled code, where it computes a known operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelkb.scaffold.draft.call_signature import Parameter
from kernelkb.scaffold.draft.drafted_reference import guess_expression
from kernelkb.scaffold.observed.observed_code import ENTRY, write_file
from kernelkb.scaffold.observed.observed_shapes import ArrayPlan, ObservedPlan


def draft_known_operation(function: Mapping[str, Any], plan: ObservedPlan) -> str | None:
    """Return a Python file with the operation that a function's name and shapes stand for.

    It is a guess until it gives the recorded outputs. None: no operation is recognised.

    Args:
        function: What was called; the names of the Triton kernels that it launched count, too.
        plan: Its calls.
    """
    inputs = [_make_parameter(array, "input") for array in plan.inputs]
    outputs = [_make_parameter(array, "output") for array in plan.outputs]
    numbers = [
        Parameter(number.name, "number", "number", value=repr(number.value))
        for number in plan.numbers
        if not number.code  # which is a size
    ]
    names = [function["qualname"].rpartition(".")[2], *function["kernels"]]
    fields = {parameter.name: parameter.name for parameter in (*inputs, *outputs)}
    expression = guess_expression(names, inputs, outputs, numbers, fields)
    if expression is None:
        return None
    arguments = [array.name for array in plan.inputs]
    arguments += [number.name for number in plan.numbers if not number.is_baked]
    code = f"def {ENTRY}({', '.join(arguments)}):\n    return {expression}\n"
    title = f"What {function['name']} computes: this gives the recorded outputs. By kb init."
    return write_file(title, code)


def _make_parameter(array: ArrayPlan, role: Any) -> Parameter:
    shape = tuple(map(str, array.shape))
    return Parameter(array.name, "tensor", role, array.dtype, shape=shape)
