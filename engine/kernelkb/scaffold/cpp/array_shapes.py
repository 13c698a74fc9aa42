"""Shapes and roles of a function's arrays, from its subscripts and their bounds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.scaffold.cpp.element_types import count_parts, find_dtype
from kernelkb.scaffold.cpp.element_uses import read_elements
from kernelkb.scaffold.cpp.functions import SourceFacts, build_function, list_row_extents
from kernelkb.scaffold.cpp.index_bounds import (
    KernelIndices,
    ask_placed,
    find_inner_sizes,
    list_offsets,
    name_index,
    read_indices,
)
from kernelkb.scaffold.cpp.syntax import (
    LOOPS,
    Declaration,
    bind_arguments,
    find_local_value,
    get_part,
    get_text,
    iter_calls,
    iter_nodes,
    iter_parents,
    strip_casts,
    unwrap,
)
from kernelkb.scaffold.draft import UNKNOWN, Function, Parameter
from kernelkb.scaffold.extents import list_axes, rename_axes, split_shape

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH, _MAX_CALLS = 6, 3
_MAX_PART = 64
"""Elements that belong together, such as the coordinates of a point: ``x[3 * i + 2]``."""
_WRAPPERS = ("parenthesized_expression", "cast_expression")
_GRID = "grid"
"""In place of a size that only the launch shows: that of an axis of the grid."""


class _Access(NamedTuple):
    """One use of an array's elements."""

    terms: list[_Product]
    is_plain: bool
    """Whether it is an element of the array's own type."""


class _Product(NamedTuple):
    """A product in a subscript: its index, and the sizes that it is multiplied by."""

    variable: str
    strides: tuple[str, ...]


def infer_shape(
    array: str, body: Node, indices: KernelIndices, grid: Mapping[str, str]
) -> tuple[tuple[str, ...], bool]:
    """Return the shape of an array, outermost first, and whether all of its uses prove it.

    It is empty where the subscripts do not show it. ``grid`` holds the size that ``blockIdx.x``
    and its kin stay below, by that text.
    """
    accesses, is_whole = _collect_accesses(array, body, indices)
    shapes = [
        shape for each in accesses if (shape := _read_shape(each.terms, indices, grid)) is not None
    ]
    known = [shape for shape in shapes if _GRID not in shape] or shapes
    chosen = max(known, key=len, default=())
    if any(_is_beyond(term, chosen) for each in accesses for term in each.terms):
        return (), False
    is_proved = is_whole and all(
        each.is_plain and _stays_below(each.terms, chosen, indices) for each in accesses
    )
    return chosen, bool(chosen) and is_proved


def _is_beyond(term: _Product, shape: Sequence[str]) -> bool:
    """Whether a constant part of a subscript is a row behind those of a shape."""
    rest = [*(Counter(term.strides) - Counter(shape[1:])).elements()]
    if term.variable or len(rest) != 1 or len(term.strides) != len(shape) or not shape[1:]:
        return False
    is_number = rest[0].isdecimal() and shape[0].isdecimal()
    return rest[0] == shape[0] or (is_number and int(rest[0]) > int(shape[0]))


def _stays_below(
    terms: Sequence[_Product],
    shape: Sequence[str],
    indices: KernelIndices,
) -> bool:
    """Whether each index of a subscript is below the size of its dimension.

    And whether the subscript tells in which order the dimensions are.
    """
    counts = {sum(s != "1" for s in term.strides) for term in terms if term.variable}
    if not {*range(1, max(counts, default=0))} <= counts:
        return False
    for term in terms:
        strides = [stride for stride in term.strides if stride != "1"]
        if not term.variable:
            number = prod(map(int, strides)) if all(s.isdecimal() for s in strides) else -1
            number = 0 if "0" in term.strides else number
            last = int(shape[-1]) if len(shape) > 1 and shape[-1].isdecimal() else 1
            if not 0 <= number < last:
                return False
            continue
        dims = shape[-len(strides) - 1 :]
        is_row = term.variable == "blockIdx.x"
        bound = _GRID if is_row else indices.exact.get(term.variable)
        if len(strides) >= len(shape) or sorted(dims[1:]) != sorted(strides) or bound != dims[0]:
            return False
    return True


def _collect_accesses(array: str, body: Node, indices: KernelIndices) -> tuple[list[_Access], bool]:
    """Return every use of an array's elements, also through pointers to its inside.

    And whether these are all uses of it.
    """
    starts: dict[str, list[_Product]] = {array: []}
    seen: list[tuple[int, int]] = []
    is_plain = True
    for name, value in indices.values.items():
        used = [node for node in iter_nodes(value) if node.type == "identifier"]
        base = next((get_text(n) for n in used if get_text(n) in starts), None)
        is_pointer = base is not None and not any(
            node.type in ("subscript_expression", "pointer_expression")
            and "&" not in get_text(node)
            for node in iter_nodes(value)
        )
        if is_pointer and base is not None:
            terms = [t for t in _expand(value, indices) if t.variable != base]
            starts[name] = starts[base] + terms
            seen.append((value.start_byte, value.end_byte))
            is_plain &= "*)" not in get_text(value) and name not in indices.moved
    found = []
    for node in iter_nodes(body):
        operator = get_part(node, "operator")
        if node.type == "assignment_expression" and operator == "+=":
            base = get_part(node, "left")
            if base in starts:
                starts[base] = starts[base] + _expand_child(node, "right", indices)
                is_plain &= not any(outer.type in LOOPS for outer in iter_parents(node))
                seen.append((node.start_byte, node.end_byte))
        accessed = _read_access(node, starts, indices)
        if accessed is not None:
            outer = node.parent
            cast = outer.child_by_field_name("type") if outer is not None else None
            found.append(_Access(accessed, "*" not in get_text(cast)))
            seen.append((node.start_byte, node.end_byte))
    uses = [n for n in iter_nodes(body) if n.type == "identifier" and get_text(n) in starts]
    others = [n for n in uses if not any(a <= n.start_byte and n.end_byte <= b for a, b in seen)]
    names = [n for n in others if _find_parent_type(n, indices) not in _DECLARING]
    return found, is_plain and not names


def _find_parent_type(name: Node, indices: KernelIndices) -> str:
    """Return the type of what holds a name; of an assignment of its only value a declarator's."""
    outer = name.parent
    if outer is None or outer.type != "assignment_expression":
        return outer.type if outer is not None else ""
    is_value = outer.child_by_field_name("left") == name and get_text(name) in indices.values
    return "init_declarator" if is_value and get_text(name) not in indices.moved else outer.type


_DECLARING = ("init_declarator", "pointer_declarator", "parameter_declaration")


def _read_access(
    node: Node, starts: Mapping[str, list[_Product]], indices: KernelIndices
) -> list[_Product] | None:
    if node.type == "subscript_expression":
        text = get_part(node, "argument")
        base = next((w for w in re.findall(r"[A-Za-z_]\w*", text) if w in starts), None)
        listed = node.child_by_field_name("indices")
        if base is None or listed is None or "[" in text or re.search(r"[+-]", text):
            return None  # of a pointer that is moved in the expression only a part is seen
        terms = [t for n in listed.named_children for t in _expand(n, indices)]
        return starts[base] + terms
    if node.type == "pointer_expression" and get_text(node).startswith("*"):
        terms = _expand_child(node, "argument", indices)
        base = next((t.variable for t in terms if t.variable in starts), None)
        if base is not None:
            return starts[base] + [t for t in terms if t.variable != base]
    return None


def _expand(node: Node, indices: KernelIndices, depth: int = 0) -> list[_Product]:
    """Return an index expression as a sum of products."""
    if (text := name_index(node, indices)) in indices.bounds:
        return [_Product(text, ())]
    node = unwrap(node)
    text = name_index(node, indices)
    while node.type in _WRAPPERS and node.named_children:  # of a pointer
        node = node.named_children[-1]
    operator = get_part(node, "operator")
    if text in indices.bounds:
        return [_Product(text, ())]
    if node.type == "binary_expression" and operator in ("+", "-", "*"):
        left = _expand_child(node, "left", indices, depth)
        right = _expand_child(node, "right", indices, depth)
        if operator != "*":
            return left + right
        return [_multiply(one, other) for one in left for other in right]
    if text in indices.sizes:
        return [_Product("", (text,))]
    value = indices.values.get(text) if text not in indices.moved else None
    if value is not None and depth < _MAX_DEPTH:
        return _expand(value, indices, depth + 1)
    return [_Product("" if text.isdecimal() else text, (text,) if text.isdecimal() else ())]


def _expand_child(node: Node, field: str, indices: KernelIndices, depth: int = 0) -> list[_Product]:
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
        part = prod(map(int, lead.strides))
        if 1 < part <= _MAX_PART and (exact := indices.exact.get(lead.variable)):
            return (exact, str(part))
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
    if function.is_kernel:
        filled = _fill_shapes(_settle_roles(function, own, facts), own, facts)
    else:
        filled = _fill_shapes(trace_arrays(function, own, facts), own, facts)
    named = {d for p in filled.parameters for d in list_axes((*p.shape, p.guess))}
    offsets = _find_offsets(filled, own, facts)
    free = [p.name for p in filled.parameters if p.role == "size" and p.name not in named]
    free = [name for name in free if name not in offsets]
    parameters = []
    for each in filled.parameters:
        if each.name in offsets:
            each = each._replace(role="number", value=FILL_IN_MARK)
        guess = each.guess or (f"[{', '.join(each.shape)}]" if _GRID in each.shape else "")
        if guess and _GRID in guess:  # rows: of one size that no other array has
            guess = re.sub(rf"\b{_GRID}\b", free[0], guess) if len(free) == 1 else ""
        shape = () if _GRID in each.shape else each.shape
        if shape and not function.is_kernel and _is_moved(each.name, own):
            shape = ()  # what it holds more is not seen
        parameters.append(each._replace(shape=shape, guess="" if shape else guess))
    return filled._replace(parameters=tuple(parameters))


def _is_moved(name: str, own: Declaration) -> bool:
    """Whether a launcher hands on a pointer behind the begin of an array: ``x + n``, ``&x[n]``."""
    moved = rf"(?<![.>\w]){re.escape(name)}\s*(?:\+|-(?!>))|[+&]\s*{re.escape(name)}\b\s*(?!\()"
    return re.search(moved, get_text(own.body)) is not None


def _find_offsets(function: Function, own: Declaration, facts: SourceFacts) -> set[str]:
    """Return the sizes of no array that a kernel, or those of a launcher, only adds to indices."""
    named = {d for p in function.parameters for d in list_axes((*p.shape, p.guess))}
    sizes = {p.name for p in function.parameters if p.role == "size"} - named
    if function.is_kernel:
        return list_offsets(own.body, sizes)
    found = dict[str, bool]()
    for site in (each for each in facts.sites if each.host == own):
        kernel = next((d for d in facts.declarations if d.name == site.kernel and d.body), None)
        names = [p.name for p in build_function(kernel).parameters] if kernel else []
        offsets = list_offsets(kernel.body, names) if kernel else set()
        for name, text in zip(names, site.arguments, strict=False):
            bare = strip_casts(text)
            found[bare] = found.get(bare, True) and name in offsets
    words = re.findall(r"\w+", get_text(own.body))
    return {name for name in sizes if found.get(name) and words.count(name) == 1}


def trace_arrays(
    function: Function,
    own: Declaration,
    facts: SourceFacts,
    depth: int = 0,
    name_argument: Callable[[str], str] = str,
    aliases: Mapping[str, str] | None = None,
) -> Function:
    """Return a function whose arrays have the roles and shapes of the functions it passes them to.

    Shapes are told in the function's sizes. ``depth`` counts the calls around it;
    ``name_argument`` tells which parameter an argument is, ``aliases`` which one a pointer is.
    """
    parameters = {p.name: p for p in function.parameters}
    is_host = not own.is_global and any(site.host == own for site in facts.sites)
    filled: dict[str, Parameter] = {}
    traced = Counter[str]()
    for name, arguments, grid in _list_calls(own, facts):
        callee = next((d for d in facts.declarations if d.name == name and d.body), None)
        if callee is None or callee == own or depth > _MAX_CALLS:
            continue
        inner = _summarize_callee(callee, facts, depth)
        bound = _bind_call(inner, list(map(name_argument, arguments)), grid)
        for each in inner.parameters:
            outer = parameters.get(bound.get(each.name, ""))
            if outer is None or not {outer.role, each.role} <= {"input", "output"}:
                continue
            traced[outer.name] += 1
            found = _rename_shape(each, bound, own, parameters)
            filled[outer.name] = _merge_uses(filled.get(outer.name), found)
    adopted = []
    for each in function.parameters:
        if each.name in filled:
            untraced = _count_uses(each.name, own, aliases or {}) - traced[each.name]
            adopted.append(_adopt(each, filled[each.name], untraced))
        else:
            is_open = is_host and each.role == "output"
            adopted.append(each._replace(is_certain=each.is_certain and not is_open))
    return function._replace(parameters=tuple(adopted))


def _bind_call(inner: Function, arguments: Sequence[str], grid: str) -> dict[str, str]:
    """Map the parameters of a called function, and the rows of its grid, to what is passed."""
    bound = bind_arguments(arguments, [p.name for p in inner.parameters])
    rows = re.match(r"(?:dim3\s*[({])?\s*(\w+)\s*(?:[,)}]|$)", grid)
    return bound | ({_GRID: rows[1]} if rows else {})


def _rename_shape(
    each: Parameter, bound: Mapping[str, str], own: Declaration, parameters: Mapping[str, Parameter]
) -> Parameter:
    """Return an array of a called function with its shape in the sizes of the caller."""
    each = each._replace(points_into=bound.get(each.points_into, each.points_into and UNKNOWN))
    each = each._replace(indexes=(bound.get(each.indexes[0], ""), each.indexes[1]))
    each = each._replace(inner=tuple(bound.get(size, UNKNOWN) for size in each.inner))
    renamed: list[str] = []
    for dim in each.shape or split_shape(each.guess):
        if not dim.isalnum() and not dim.isidentifier():
            axes = [bound.get(axis, "") for axis in list_axes([dim])]
            is_known = all(axis in parameters or axis.isdecimal() for axis in axes)
            renamed.append(rename_axes(dim, bound) if is_known else "")
            continue
        text = dim if dim.isdecimal() else bound.get(dim, "")
        if text and text not in parameters and not text.isdecimal():
            factors = re.sub(r"\s", "", find_local_value(text, own)).split("*")
            renamed += factors if all(f in parameters or f.isdecimal() for f in factors) else [""]
        else:
            renamed.append(text)
    if not all(renamed):
        return each._replace(shape=(), guess="")
    shape = tuple(renamed)
    guess = f"[{', '.join(shape)}]" if not each.shape and shape else ""
    return each._replace(shape=shape if each.shape else (), guess=guess)


def _count_uses(name: str, own: Declaration, aliases: Mapping[str, str]) -> int:
    """Return how often a body uses a parameter's elements, itself or by a local pointer."""
    used = [n for n in iter_nodes(own.body) if n.type == "identifier"]
    pointers = {alias for alias, tensor in aliases.items() if tensor == name}
    return sum(
        _is_use(node) and not (pointers and _find_around(node).endswith("declarator"))
        for node in used
        if get_text(node) == name or get_text(node) in pointers
    )


def _is_use(node: Node) -> bool:
    """Whether an identifier stands for its elements: no test, and no other member of a tensor."""
    around = node.parent
    while around is not None and around.type == "parenthesized_expression":
        node, around = around, around.parent
    if around is None or around.type == "init_declarator":
        return around is None or around.child_by_field_name("declarator") != node
    if around.type == "field_expression":
        return "data" in get_part(around, "field")
    if around.type == "argument_list" and get_part(around.parent, "function").endswith("_like"):
        return False
    return around.type != "pointer_declarator" and get_text(
        around.child_by_field_name("operator")
    ) not in ("==", "!=")


def _find_around(node: Node) -> str:
    """Return the type of the statement, or of the declared variable, that holds a node."""
    types = (outer.type for outer in iter_parents(node))
    return next((t for t in types if t.endswith(("statement", "init_declarator"))), "")


def _adopt(own: Parameter, found: Parameter, untraced: int) -> Parameter:
    """Return an array with what the functions do to it that it is passed to."""
    if own.role not in ("input", "output"):
        return own
    if found.dtype and found.dtype != own.dtype and (own.dtype or count_parts(found.type) > 1):
        # Passed on by a cast, as vectors of 16 bytes: their count is not that of its elements.
        found = found._replace(dtype=None, shape=(), guess="")
    is_input = own.role == "input" and found.role == "output" and not found.is_certain
    role = own.role if is_input else found.role
    return own._replace(
        role=role,
        is_read=found.is_read and role == "output",
        points_into=found.points_into,
        fill=found.fill,
        asks_fill=found.asks_fill,
        indexes=found.indexes,
        indexed_axis=found.indexed_axis,
        is_certain=is_input or (found.is_certain and (untraced <= 0 or own.role == "input")),
        dtype=own.dtype or found.dtype,
        shape=found.shape or own.shape,
        guess=found.guess,
        inner=found.inner,
        use="traced",
    )


def _list_calls(own: Declaration, facts: SourceFacts) -> list[tuple[str, list[str], str]]:
    """List the calls in a function's body: name, arguments, and the grid of a launch."""
    calls = [
        (site.kernel, list(site.arguments), site.configuration[0] if site.configuration else "")
        for site in facts.sites
        if site.host == own
    ]
    return calls + [(name, arguments, "") for name, arguments in iter_calls(own.body)]


def _merge_uses(earlier: Parameter | None, later: Parameter) -> Parameter:
    """Return what two calls show of one array: an output stays one; what differs is a guess."""
    if earlier is None:
        return later
    shape = earlier.shape if earlier.shape == later.shape else ()
    shapes = [f"[{', '.join(each.shape)}]" for each in (earlier, later) if each.shape]
    guess = "" if shape else max([*shapes, earlier.guess, later.guess], key=len)
    is_whole = earlier.role == "output" and not earlier.is_read
    is_certain = earlier.is_certain and (later.is_certain or is_whole)
    if earlier.role == "output":
        return earlier._replace(shape=shape, guess=guess, is_certain=is_certain)
    is_read = later.is_read or later.role == "output"
    return later._replace(is_read=is_read, shape=shape, guess=guess, is_certain=is_certain)


def _summarize_callee(callee: Declaration, facts: SourceFacts, depth: int) -> Function:
    inner = build_function(callee)
    if not inner.is_kernel:
        return trace_arrays(inner, callee, facts, depth + 1)
    return _fill_shapes(_settle_roles(inner, callee, facts, depth), callee, facts)


def _settle_roles(
    function: Function, own: Declaration, facts: SourceFacts, depth: int = 0
) -> Function:
    """Return a kernel whose arrays, where it only passes them on, have the roles given there."""
    traced = trace_arrays(function, own, facts, depth + 1)
    return function._replace(
        parameters=tuple(
            p._replace(role=t.role, is_read=t.is_read, is_certain=True)
            if not p.is_certain and t.is_certain
            else p
            for p, t in zip(function.parameters, traced.parameters, strict=True)
        )
    )


def _fill_shapes(function: Function, own: Declaration, facts: SourceFacts) -> Function:
    if own.body is None:
        return function
    sizes = [p.name for p in function.parameters if p.role == "size"]
    constants = {name: text for name, text in facts.constants.items() if text.isdecimal()}
    indices = read_indices(own.body, [*sizes, *constants])
    grid = {f"blockIdx.{axis}": _GRID for axis in _list_row_axes(own)}
    arrays = [p.name for p in function.parameters if p.role in ("input", "output")]
    inner = find_inner_sizes(own.body, arrays, sizes)
    parameters = []
    for each in function.parameters:
        if each.role in ("input", "output"):
            shape, is_proved = infer_shape(each.name, own.body, indices, grid)
            parts = (*list_row_extents(each, facts.constants), *list_parts(each.type, facts))
            shape = tuple(d if d in sizes else constants.get(d, d) for d in shape)
            whole = (*shape, *parts) if shape else each.shape
            is_proved &= _has_known_parts(each, own, facts)
            if any(dim == "0" or "stride" in dim.lower() for dim in whole):
                shape, whole, is_proved = (
                    (),
                    each.shape,
                    False,
                )  # a stride is how far the next element is, and no size
            guess = each.guess if is_proved or not shape else f"[{', '.join(whole)}]"
            each = each._replace(shape=whole if is_proved or not shape else (), guess=guess)
            each = each._replace(inner=inner.get(each.name, ()))
            each = read_elements(each, [p.name for p in function.parameters], own.body)
            each = ask_placed(each, [p.name for p in function.parameters], own.body)
            chosen = next((p for p in function.parameters if p.name == each.indexes[0]), each)
            each = each._replace(indexed_axis=-1 - len(list_parts(chosen.type, facts)))
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _has_known_parts(array: Parameter, own: Declaration, facts: SourceFacts) -> bool:
    """Whether an element of an array is one number, or a vector of known length."""
    kind = facts.aliases.get(array.type, array.type)
    names = {FILL_IN_MARK, *(each.name for each in own.template)}
    return bool(find_dtype(kind)) or kind in facts.records or bool(names & {*kind.split()})


def list_parts(kind: str, facts: SourceFacts) -> tuple[str, ...]:
    """Return the innermost dimension of an array of vectors or structures; empty for numbers."""
    count = facts.records[kind][1] if kind in facts.records else count_parts(kind)
    return (str(count),) if count > 1 else ()


def _list_row_axes(own: Declaration) -> list[str]:
    """List the axes of the grid that a kernel uses alone, one block for a row."""
    found = []
    for node in iter_nodes(own.body):
        match = _GRID_INDEX.fullmatch(get_text(node)) if node.type == "field_expression" else None
        around = get_text(node.parent) if match and node.parent is not None else ""
        if match and not re.search(r"blockIdx\.\w\s*\*|\*\s*blockIdx", around):
            found.append(match[1])
    return list(dict.fromkeys(found))
