"""Shapes and roles of a function's arrays, its own or those of the kernels that it starts."""

from __future__ import annotations

import re

from kernelkb.scaffold.c.array_shapes import ROWS, infer_shape, read_indices
from kernelkb.scaffold.c.blas_names import apply_blas_names
from kernelkb.scaffold.c.c_declarations import Declaration, get_text, iter_nodes
from kernelkb.scaffold.c.c_functions import build_function, count_parts
from kernelkb.scaffold.c.launch_sites import bind_arguments, iter_calls
from kernelkb.scaffold.c.source_facts import SourceFacts
from kernelkb.scaffold.draft.call_signature import Function, Parameter

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
    filled: dict[str, Parameter] = {}
    for name, arguments, grid in _list_calls(own, facts):
        callee = next((d for d in facts.declarations if d.name == name and d.body), None)
        if callee is None or callee == own or depth > 3:
            continue
        inner = _summarize_callee(callee, facts, depth)
        bound = bind_arguments(arguments, [p.name for p in inner.parameters])
        rows = re.match(r"(?:dim3\s*[({])?\s*(\w+)\s*(?:[,)}]|$)", grid)
        bound |= {ROWS: rows[1]} if rows else {}
        for each in inner.parameters:
            outer = parameters.get(bound.get(each.name, ""))
            if outer is None or outer.role not in ("input", "output") or not each.shape:
                continue
            shape = tuple(bound.get(dim, dim if dim.isdecimal() else "") for dim in each.shape)
            is_whole = all(dim.isdecimal() or dim in parameters for dim in shape)
            found = each._replace(shape=shape if is_whole else ())
            filled[outer.name] = _merge_uses(filled.get(outer.name), found)
    return function._replace(
        parameters=tuple(
            p._replace(
                role=filled[p.name].role,
                is_read=filled[p.name].is_read,
                is_certain=filled[p.name].is_certain,
                is_index=filled[p.name].is_index,
                dtype=p.dtype or filled[p.name].dtype,
                shape=filled[p.name].shape or p.shape,
            )
            if p.name in filled
            else p
            for p in function.parameters
        )
    )


def _list_calls(own: Declaration, facts: SourceFacts) -> list[tuple[str, list[str], str]]:
    """List the calls in a function's body: name, arguments, and the grid of a launch."""
    calls = [
        (site.kernel, list(site.arguments), site.configuration[0] if site.configuration else "")
        for site in facts.sites
        if site.host == own
    ]
    if own.body is not None:
        calls += [(name, arguments, "") for name, arguments in iter_calls(own.body)]
    return calls


def _merge_uses(earlier: Parameter | None, later: Parameter) -> Parameter:
    """Return what two calls show of one array: an output stays one; unknown sizes stay unknown."""
    if earlier is None:
        return later
    shape = max(earlier.shape, later.shape, key=len) if earlier.shape and later.shape else ()
    if earlier.role == "output":
        return earlier._replace(shape=shape)
    is_read = later.is_read or later.role == "output"
    return later._replace(is_read=is_read, shape=shape)


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
            parts = list_parts(each.type, facts)
            shape = tuple(_resolve_constant(d, facts) for d in shape)
            each = each._replace(shape=shape + parts if shape else ())
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def list_parts(kind: str, facts: SourceFacts) -> tuple[str, ...]:
    """Return the innermost dimension of an array of vectors or structures; empty for numbers."""
    count = facts.records[kind][1] if kind in facts.records else count_parts(kind)
    return (str(count),) if count > 1 else ()


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
