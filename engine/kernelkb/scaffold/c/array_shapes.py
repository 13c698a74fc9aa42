"""Shapes and roles of a function's arrays, from its subscripts and their bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.scaffold.c.c_functions import SourceFacts, build_function, count_parts
from kernelkb.scaffold.c.syntax import Declaration, bind_arguments, get_text, iter_calls, iter_nodes
from kernelkb.scaffold.draft import Function, Parameter

if TYPE_CHECKING:
    from tree_sitter import Node

_COMPARISONS = {"<": 0, "<=": 0, "!=": 0, ">=": 0, ">": 1}
"""Which side of a comparison is the index: 0 left, 1 right. ``i >= n`` returns early."""
_MAX_DEPTH = 6
_WRAPPERS = ("parenthesized_expression", "cast_expression")
_GRID = "grid"
"""In place of a size that only the launch shows: that of an axis of the grid."""


class KernelIndices(NamedTuple):
    """What a body says of its indices."""

    values: dict[str, Node]
    """Initial value of each local variable."""
    bounds: dict[str, str]
    """The size that an index, or an expression, stays below."""
    sizes: frozenset[str]
    """Names of sizes and of constants."""


class _Product(NamedTuple):
    """A product in a subscript: its index, and the sizes that it is multiplied by."""

    variable: str
    strides: tuple[str, ...]


def read_indices(body: Node, sizes: Sequence[str]) -> KernelIndices:
    """Return the local values and the bounds of a kernel's body.

    Args:
        body: The body.
        sizes: Names of its integer parameters, and of the file's constants.
    """
    values: dict[str, Node] = {}
    bounds: dict[str, str] = {}
    names = frozenset(sizes)
    for node in iter_nodes(body):
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if node.type == "init_declarator" and name is not None and value is not None:
            while name.type == "pointer_declarator" and name.named_children:
                name = name.named_children[-1]
            values.setdefault(get_text(name), value)
        operator = get_text(node.child_by_field_name("operator"))
        if node.type == "binary_expression" and operator in _COMPARISONS:
            sides = [node.child_by_field_name("left"), node.child_by_field_name("right")]
            if operator in (">=", ">") and get_text(sides[0]) in names:
                sides.reverse()
            bound = _find_size(get_text(sides[1]), names, values)
            if bound is not None:
                bounds.setdefault(re.sub(r"\s", "", get_text(sides[0])), bound)
    return KernelIndices(values, bounds, names)


def _find_size(text: str, sizes: frozenset[str], values: Mapping[str, Node]) -> str | None:
    """Return the only size that an expression names, following local variables."""
    words: list[str] = re.findall(r"[A-Za-z_]\w*", text)
    found = [word for word in words if word in sizes]
    if len(found) == 1:
        return found[0]
    if text.isidentifier() and text in values and not found:
        value = get_text(values[text])
        return None if value == text else _find_size(value, sizes, {})
    return text if text.isdecimal() else None


def infer_shape(
    array: str, body: Node, indices: KernelIndices, grid: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the shape of an array, outermost first; empty where the subscripts do not show it.

    Args:
        array: The parameter's name.
        body: The kernel's body.
        indices: From ``read_indices``.
        grid: The size that ``blockIdx.x`` and its kin stay below, by that text.
    """
    shapes = [
        shape
        for subscript in _collect_subscripts(array, body, indices)
        if (shape := _read_shape(subscript, indices, grid)) is not None
    ]
    known = [shape for shape in shapes if _GRID not in shape] or shapes
    return max(known, key=len, default=())


def _collect_subscripts(array: str, body: Node, indices: KernelIndices) -> list[list[_Product]]:
    """Return the terms of every index into an array, also through pointers to its inside."""
    starts: dict[str, list[_Product]] = {array: []}
    for name, value in indices.values.items():
        used = [node for node in iter_nodes(value) if node.type == "identifier"]
        base = next((get_text(n) for n in used if get_text(n) in starts), None)
        is_pointer = base is not None and not any(
            node.type in ("subscript_expression", "pointer_expression")
            and "&" not in get_text(node)
            for node in iter_nodes(value)
        )
        if is_pointer and base is not None:
            terms = [t for t in _expand(value, indices, 0) if t.variable != base]
            starts[name] = starts[base] + terms
    found = []
    for node in iter_nodes(body):
        operator = get_text(node.child_by_field_name("operator"))
        if node.type == "assignment_expression" and operator == "+=":
            base = get_text(node.child_by_field_name("left"))
            if base in starts:
                starts[base] = starts[base] + _expand_child(node, "right", indices)
        accessed = _read_access(node, starts, indices)
        if accessed is not None:
            found.append(accessed)
    return found


def _read_access(
    node: Node, starts: Mapping[str, list[_Product]], indices: KernelIndices
) -> list[_Product] | None:
    if node.type == "subscript_expression":
        text = get_text(node.child_by_field_name("argument"))
        base = next((w for w in re.findall(r"[A-Za-z_]\w*", text) if w in starts), None)
        listed = node.child_by_field_name("indices")
        if base is None or listed is None or "[" in text:
            return None
        terms = [t for n in listed.named_children for t in _expand(n, indices, 0)]
        return starts[base] + terms
    if node.type == "pointer_expression" and get_text(node).startswith("*"):
        terms = _expand_child(node, "argument", indices)
        base = next((t.variable for t in terms if t.variable in starts), None)
        if base is not None:
            return starts[base] + [t for t in terms if t.variable != base]
    return None


def _expand_child(node: Node, field: str, indices: KernelIndices) -> list[_Product]:
    child = node.child_by_field_name(field)
    return _expand(child, indices, 0) if child is not None else []


def _expand(node: Node, indices: KernelIndices, depth: int) -> list[_Product]:
    """Return an index expression as a sum of products."""
    text = re.sub(r"\s", "", get_text(node))
    while node.type in _WRAPPERS and node.named_children:
        node = node.named_children[-1]
    operator = get_text(node.child_by_field_name("operator"))
    if text in indices.bounds:
        return [_Product(text, ())]
    if node.type == "binary_expression" and operator in ("+", "-", "*"):
        left = _expand_child_at(node, "left", indices, depth)
        right = _expand_child_at(node, "right", indices, depth)
        if operator != "*":
            return left + right
        return [_multiply(one, other) for one in left for other in right]
    if text in indices.sizes:
        return [_Product("", (text,))]
    value = indices.values.get(text)
    if value is not None and depth < _MAX_DEPTH:
        return _expand(value, indices, depth + 1)
    return [_Product("" if text.isdecimal() else text, (text,) if text.isdecimal() else ())]


def _expand_child_at(node: Node, field: str, indices: KernelIndices, depth: int) -> list[_Product]:
    child = node.child_by_field_name(field)
    return _expand(child, indices, depth) if child is not None else []


def _multiply(one: _Product, other: _Product) -> _Product:
    index = one.variable if one.variable and not other.variable else other.variable or one.variable
    if one.variable and other.variable:
        index = f"{one.variable}*{other.variable}"
    return _Product(index, one.strides + other.strides)


def _read_shape(
    terms: list[_Product], indices: KernelIndices, grid: Mapping[str, str]
) -> tuple[str, ...] | None:
    """Return the shape that a sum of products indexes; the term of most strides is outermost."""
    sized = [
        t._replace(strides=tuple(s for s in t.strides if s != "1")) for t in terms if t.variable
    ]
    if not sized:
        return ("1",) if terms and not terms[0].strides[1:] else None
    lead = max(sized, key=lambda term: len(term.strides))
    names = [stride for stride in lead.strides if not stride.isdecimal()]
    if not names:
        bounds = [b for t in sized if (b := _find_bound(t.variable, indices, grid)) is not None]
        whole = {bound for bound in bounds if bound != _GRID} or set(bounds)
        return (whole.pop(),) if len(whole) == 1 else None
    outer = [t for t in sized if t.strides == lead.strides]
    bound = next((b for t in outer if (b := _find_bound(t.variable, indices, grid))), _GRID)
    counts = {name: sum(name in t.strides for t in sized) for name in names}
    parts = [stride for stride in lead.strides if stride.isdecimal() and len(stride) < 4]
    return (bound, *sorted(names, key=lambda name: counts[name]), *parts)


def _find_bound(index: str, indices: KernelIndices, grid: Mapping[str, str]) -> str | None:
    if index in indices.bounds:
        return indices.bounds[index]
    if "blockDim" in index:
        return None
    return next((size for text, size in grid.items() if text in index), None)


_GRID_INDEX = re.compile(r"\bblockIdx\.([xyz])\b")


def fill_arrays(function: Function, own: Declaration, facts: SourceFacts) -> Function:
    """Give the arrays their shapes and roles; a launcher has those of the kernels it starts."""
    filled = _fill_shapes(_fill_from_callees(function, own, facts, depth=0), own, facts)
    known = [p._replace(shape=()) if _GRID in p.shape else p for p in filled.parameters]
    return filled._replace(parameters=tuple(known))


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
        bound |= {_GRID: rows[1]} if rows else {}
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
    grid = {f"blockIdx.{axis}": _GRID for axis in _list_row_axes(own)}
    parameters = []
    for each in function.parameters:
        if each.role in ("input", "output"):
            shape = infer_shape(each.name, own.body, indices, grid)
            parts = list_parts(each.type, facts)
            shape = tuple(_resolve_constant(d, facts) for d in shape)
            each = each._replace(shape=shape + parts if shape else each.shape)
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
