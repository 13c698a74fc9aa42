"""Shapes and roles of a function's arrays, its own or those of the kernels that it starts."""

from __future__ import annotations

import re

from kernelkb.scaffold.array_shapes import ROWS, infer_shape, read_indices
from kernelkb.scaffold.blas_names import apply_blas_names
from kernelkb.scaffold.c_declarations import Declaration, get_text, iter_nodes
from kernelkb.scaffold.c_functions import build_function, count_parts
from kernelkb.scaffold.call_signature import Function
from kernelkb.scaffold.launch_sites import bind_arguments, iter_calls
from kernelkb.scaffold.source_facts import SourceFacts

_GRID_INDEX = re.compile(r"\bblockIdx\.([xyz])\b")


def fill_arrays(function: Function, own: Declaration, facts: SourceFacts) -> Function:
    """Give the arrays their shapes and roles; a launcher has those of the kernels it starts."""
    filled = _fill_from_callees(function, own, facts, depth=0)
    if function.is_kernel and own.body is not None:
        filled = _fill_shapes(filled, own, facts)
    return apply_blas_names(filled)


def _fill_from_callees(
    function: Function, own: Declaration, facts: SourceFacts, depth: int
) -> Function:
    parameters = {p.name: p for p in function.parameters}
    calls = [(s.kernel, list(s.arguments)) for s in facts.sites if s.host == own]
    calls += list(iter_calls(own.body)) if own.body is not None else []
    for name, arguments in calls:
        callee = next((d for d in facts.declarations if d.name == name and d.body), None)
        if callee is None or callee == own or depth > 3:
            continue
        inner = _summarize_callee(callee, facts, depth)
        bound = bind_arguments(arguments, [p.name for p in inner.parameters])
        for each in inner.parameters:
            outer = parameters.get(bound.get(each.name, ""))
            if outer is not None and outer.role in ("input", "output") and each.shape:
                shape = tuple(bound.get(dim, dim if dim.isdecimal() else "") for dim in each.shape)
                is_whole = all(dim.isdecimal() or dim in parameters for dim in shape)
                parameters[outer.name] = outer._replace(
                    role=each.role,
                    is_read=each.is_read,
                    is_index=each.is_index,
                    dtype=outer.dtype or each.dtype,
                    shape=shape if is_whole else outer.shape,
                )
    return function._replace(parameters=tuple(parameters.values()))


def _summarize_callee(callee: Declaration, facts: SourceFacts, depth: int) -> Function:
    inner = build_function(callee)
    if inner.is_kernel:
        return _fill_shapes(inner, callee, facts)
    return _fill_from_callees(inner, callee, facts, depth + 1)


def _fill_shapes(function: Function, own: Declaration, facts: SourceFacts) -> Function:
    if own.body is None:
        return function
    sizes = [p.name for p in function.parameters if p.role == "size"]
    constants = [name for name, text in facts.constants.items() if text.isdecimal()]
    indices = read_indices(own.body, [*sizes, *constants])
    grid = {f"blockIdx.{axis}": ROWS for axis in _list_row_axes(own)}
    parameters = []
    for each in function.parameters:
        if each.role in ("input", "output"):
            shape = infer_shape(each.name, own.body, indices, grid)
            parts = (str(count_parts(each.type)),) if count_parts(each.type) > 1 else ()
            shape = tuple(_resolve_constant(d, facts) for d in shape)
            each = each._replace(shape=shape + parts if shape else ())
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _resolve_constant(dim: str, facts: SourceFacts) -> str:
    value = facts.constants.get(dim, dim)
    return value if value.isdecimal() else dim


def _list_row_axes(own: Declaration) -> list[str]:
    """List the axes of the grid that a kernel uses alone, one block for a row."""
    if own.body is None:
        return []
    found = []
    for node in iter_nodes(own.body):
        match = _GRID_INDEX.fullmatch(get_text(node)) if node.type == "field_expression" else None
        around = get_text(node.parent) if match and node.parent is not None else ""
        if match and not re.search(r"blockIdx\.\w\s*\*|\*\s*blockIdx", around):
            found.append(match[1])
    return list(dict.fromkeys(found))
