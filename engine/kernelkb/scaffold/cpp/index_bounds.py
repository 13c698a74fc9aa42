"""What a kernel's body says of its indices: their values, and the sizes that they stay below."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.scaffold.cpp.element_uses import iter_settings, iter_subscripts, show_line
from kernelkb.scaffold.cpp.syntax import (
    INTEGER_CAST,
    get_part,
    get_text,
    iter_nodes,
    iter_parents,
    iter_values,
    list_scopes,
    unwrap,
)
from kernelkb.scaffold.draft import Parameter

if TYPE_CHECKING:
    from tree_sitter import Node

_COMPARISONS = ("<", "<=", "!=", ">=", ">")
"""``i >= n`` returns early."""
_LOOPS = ("for_statement", "while_statement", "do_statement")
_EXACT = {"<": False, ">=": False, ">": True, "<=": True}
"""Operators that say below which size an index stays; True: the size stands on the left."""


_SUMS = ("binary_expression", "parenthesized_expression", "cast_expression")
_RELATIONS = ("<", "<=", ">", ">=", "==", "!=", "&&", "||")


class KernelIndices(NamedTuple):
    """What a body says of its indices."""

    values: dict[str, Node]
    """Initial value of each local variable."""
    bounds: dict[str, str]
    """The size that an index, or an expression, stays below."""
    sizes: frozenset[str]
    """Names of sizes and of constants."""
    exact: Mapping[str, str] = {}
    """Those of ``bounds`` that the body states as they are, and states no other."""
    moved: frozenset[str] = frozenset()
    """Local variables that have more than one value."""
    scopes: Mapping[str, Sequence[tuple[int, int]]] = {}
    """Of each integer that is several variables in turn, where they begin and end."""


def read_indices(body: Node, sizes: Sequence[str]) -> KernelIndices:
    """Return the local values and the bounds of a kernel's body.

    Args:
        body: The body.
        sizes: Names of its integer parameters, and of the file's constants.
    """
    stated: dict[str, set[str]] = {}
    moved, shifted, begun = set[str](), set[str](), set[int]()
    found = KernelIndices({}, {}, frozenset(sizes), scopes=list_scopes(body))
    for name, value in iter_values(body):
        while name.type == "pointer_declarator" and name.named_children:
            name = name.named_children[-1]
        text = name_index(name, found)
        if get_text(found.values.setdefault(text, value)) != get_text(value):
            moved.add(text)
        begun.add(name.start_byte)
    for node in iter_nodes(body):
        if node.type in ("assignment_expression", "update_expression"):
            set_ = node.child_by_field_name("left") or node.child_by_field_name("argument")
            if set_ is not None and set_.start_byte not in begun:
                moved.add(name_index(set_, found))
                is_counted = any(outer.type in _LOOPS for outer in iter_parents(node))
                shifted |= set() if is_counted else {name_index(set_, found)}
    for node in sorted(iter_nodes(body), key=_is_of_begin):
        if node.type == "binary_expression":
            _read_bound(node, found, stated)
    exact = {text: kinds.pop() for text, kinds in stated.items() if len(kinds) == 1}
    exact = {text: size for text, size in exact.items() if size and text not in shifted}
    return found._replace(exact=exact, moved=frozenset(moved))


def _is_of_begin(node: Node) -> bool:
    """Whether a comparison may say where an index begins: ``i >= 1``, which no other bound is."""
    return get_part(node, "operator") in (">", ">=") and get_part(node, "right").isdecimal()


def name_index(node: Node, indices: KernelIndices) -> str:
    """Return an expression without blanks; a variable of several scopes with the place of its."""
    raw, parts, done = node.text or b"", list[bytes](), 0
    for each in iter_nodes(node) if indices.scopes else ():
        spans = indices.scopes.get(get_text(each), ()) if each.type == "identifier" else ()
        inside = [begin for begin, end in spans if begin <= each.start_byte < end]
        if inside:
            end = each.end_byte - node.start_byte
            parts.append(raw[done:end] + b"@%d" % max(inside))
            done = end
    return re.sub(r"\s", "", b"".join([*parts, raw[done:]]).decode())


def _read_bound(node: Node, indices: KernelIndices, stated: dict[str, set[str]]) -> None:
    """Add what a comparison, or a remainder, says of an index; an empty size for no exact one."""
    operator = get_part(node, "operator")
    left, right = (node.child_by_field_name(side) for side in ("left", "right"))
    if left is None or right is None:
        return
    names, values, bounds = indices.sizes, indices.values, indices.bounds
    if operator == "%" and (exact := _find_exact(get_text(right), names, values)):
        text = name_index(node, indices)
        bounds.setdefault(text, exact)
        stated.setdefault(text, set()).add(exact)
    if operator not in _COMPARISONS:
        return
    is_left = operator in (">=", ">", "<=") and get_text(left) in names
    index = name_index(unwrap(right if is_left else left), indices)
    size = get_text(left if is_left else right)
    bound = _find_size(size, names, values)
    if bound == "0":
        return  # it says where an index begins
    if bound is not None:
        bounds.setdefault(index, bound)
    exact = _find_exact(size, names, values) if _EXACT.get(operator) is is_left else ""
    stated.setdefault(index, set()).add(exact)


def list_offsets(body: Node | None, names: Collection[str]) -> set[str]:
    """Return the integers that a body only adds to indices: they are no sizes."""
    added, others = set[str](), set[str]()
    for node in iter_nodes(body):
        name = get_text(node)
        if node.type != "identifier" or name not in names:
            continue
        chain = [*takewhile(lambda outer: outer.type in _SUMS, iter_parents(node))]
        operators = [get_part(each, "operator") for each in chain]
        first = next(filter(None, operators), "")
        is_compared = any(each in _RELATIONS for each in operators)
        is_added = first == "+" and not is_compared  # n - i counts down from a size
        (added if is_added else others).add(name)
    return added - others


def _find_exact(text: str, sizes: frozenset[str], values: Mapping[str, Node]) -> str:
    """Return the size that an expression is, without its casts; empty for anything else."""
    bare = re.sub(r"\s", "", text)
    while bare != (inner := INTEGER_CAST.sub("", bare).removeprefix("+")):
        bare = inner
    bare = re.sub(r"^\((\w+)\)$", r"\1", bare)
    if bare in sizes or bare.isdecimal():
        return bare
    value = get_text(values[bare]) if bare in values else ""
    return _find_exact(value, sizes, {}) if value else ""


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


_CLAMPS = re.compile(r"(?:std::)?(?:min|max|clamp)")
_ADDED_DEPTH = 4
"""Variables, and arrays of a block's shared memory, that a value goes through."""
_FIXED_NAME = re.compile(r"[A-Z][A-Z\d_]*|blockDim|gridDim|[xyz]")


class _Flow(NamedTuple):
    """Where the elements of an array go in a body."""

    array: str
    held: set[str]
    """The array, and the variables that depend on its elements."""
    fixed: frozenset[str]
    """Parameters and what is made of them alone: a row times its width is a place in range."""
    is_float: bool


def ask_placed(array: Parameter, names: Collection[str], body: Node | None) -> Parameter:
    """Return an array with the question for its values, if an index or a size depends on them.

    Integers that are an index as they are, or the number of a row, are drawn below its size.
    """
    is_known = array.points_into or array.indexes[0] or array.asks_fill[0]
    is_number = array.role == "input" and re.match(r"u?int|b?float", array.dtype or "")
    if body is None or is_known or not is_number:
        return array
    settings = [*iter_settings(body)]
    is_float = "float" in (array.dtype or "")
    flow = _Flow(array.name, {array.name}, _list_fixed(names, settings), is_float)
    loops = (node.child_by_field_name("initializer") for node in iter_nodes(body))
    begun = [each for loop in loops if loop is not None for each in iter_settings(loop)]
    counted = {name for name, value in begun if not _holds(value, flow)}
    for _ in range(_ADDED_DEPTH):
        for name, value in settings:
            if name not in counted and _holds(value, flow):
                flow.held.add(name.lstrip("* ").partition("[")[0])
    why = ""
    for base, index in iter_subscripts(body):
        is_plain = not is_float and _is_plain(index, flow, settings)
        if base != array.name and not is_plain and _holds(index, flow):
            why = why or f"its values are in an index, {show_line(index)}"
    bound = None if why or is_float else _find_bounded(flow, names, settings, body)
    why = f"its values are a size or a step, {show_line(bound)}" if bound is not None else why
    guess = "integers 32|ones" if bound is not None else "integers 32|zeros"
    return array._replace(asks_fill=(guess, why), fill="") if why else array


def _list_fixed(names: Collection[str], settings: Sequence[tuple[str, Node]]) -> frozenset[str]:
    """Return parameters, and the variables that are set once, to an expression of such."""
    fixed, counts = {*names}, Counter(name for name, _ in settings)
    for name, value in settings:
        words = _list_identifiers(value)
        is_fixed = bool(words) and all(w in fixed or _FIXED_NAME.fullmatch(w) for w in words)
        if is_fixed and counts[name] == 1 and "[" not in get_text(value):
            fixed.add(name)
    return frozenset(fixed)


def _find_bounded(
    flow: _Flow, names: Collection[str], settings: Sequence[tuple[str, Node]], body: Node
) -> Node | None:
    """Return where values of an array bound an index, or move a pointer; None for nowhere."""
    counted = {word for _, index in iter_subscripts(body) for word in _list_identifiers(index)}
    for node in iter_nodes(body):
        operator = get_part(node, "operator")
        sides = [node.child_by_field_name(side) for side in ("left", "right")]
        for one, other in (sides, sides[::-1]):
            if one is None or other is None or not _holds(one, flow):
                continue
            text = get_text(unwrap(other))
            is_moved = operator == "+" and text in names and not _is_plain(one, flow, settings)
            if (is_moved and text != flow.array) or (
                operator in _COMPARISONS and text in counted - flow.held
            ):
                return node
    return None


def _list_identifiers(node: Node) -> set[str]:
    return {get_text(each) for each in iter_nodes(node) if each.type == "identifier"}


def _holds(node: Node, flow: _Flow) -> bool:
    """Whether an expression depends on an element of an array, or a variable that holds such.

    Not one that only chooses an element of another array, nor one that is kept in a range, nor
    an integer that is a row: it is multiplied by what is the same for all threads.
    """
    operator = get_part(node, "operator")
    if node.type == "identifier":
        return get_text(node) in flow.held and get_text(node) != flow.array
    if node.type == "subscript_expression":
        return get_part(node, "argument").partition("[")[0] in flow.held
    if node.type == "pointer_expression":
        return re.sub(r"[*\s()]", "", get_text(node)) in flow.held
    is_kept = operator in ("%", "&", *_RELATIONS, "!")
    if is_kept or _CLAMPS.fullmatch(get_part(node, "function")):
        return False
    sides = [node.child_by_field_name(side) for side in ("left", "right")]
    for one, other in (sides, sides[::-1]) if operator == "*" and not flow.is_float else ():
        words = _list_identifiers(other) if other is not None else set[str]()
        is_fixed = all(w in flow.fixed or _FIXED_NAME.fullmatch(w) for w in words)
        if one is not None and is_fixed and _holds(one, flow) and "[" not in get_text(other):
            return False
    inner = node.named_children[node.type == "conditional_expression" :]
    return any(_holds(each, flow) for each in inner)


def _is_plain(index: Node, flow: _Flow, settings: Sequence[tuple[str, Node]]) -> bool:
    """Whether an index is an element as it is, itself or by a variable, or a number beside it."""
    parts = [*_iter_addends(index)]
    if len(parts) != 1:
        return False
    own = [value for name, value in settings if name == get_text(parts[0])] or parts
    addends = [[*_iter_addends(value)] for value in own]
    return all(
        len(each) == 1
        and each[0].type == "subscript_expression"
        and get_part(each[0], "argument") in flow.held
        for each in addends
    )


def _iter_addends(node: Node) -> Iterator[Node]:
    """Yield the parts of a sum or a difference but numbers; another expression is its own."""
    node = unwrap(node)
    is_sum = get_part(node, "operator") in ("+", "-") and node.type == "binary_expression"
    for side in node.named_children if is_sum else ():
        yield from _iter_addends(side)
    if not is_sum and node.type != "number_literal":
        yield node


_MAX_TERMS, _MAX_DEPTH = 32, 5
_Term = tuple[bool, tuple[str, ...]]
"""Of a sum of products: whether it depends on an index, and the sizes in it."""


def find_inner_sizes(
    body: Node | None, arrays: Collection[str], sizes: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Map arrays to the sizes that are multiplied by the index of a row, the innermost last.

    Also by what a local variable holds, in whichever of its values; and of an array that is copied
    element by element those of the copy.
    """
    if body is None or not sizes:
        return {}
    settings: dict[str, list[Node]] = {}
    for name, value in iter_settings(body):
        settings.setdefault(name.lstrip("*& "), []).append(value)
    found: dict[str, list[set[_Term]]] = {}
    for base, index in iter_subscripts(body):
        begins = settings.get(base, ()) if base not in arrays else ()
        found.setdefault(base, []).append(_expand_terms(index, sizes, settings))
        for value in begins:
            for array in _list_identifiers(value) & {*arrays}:
                found.setdefault(array, []).append(_expand_terms(value, sizes, settings))
    inner = {base: _choose_inner(terms) for base, terms in found.items()}
    for array, copy in _iter_copies(body):
        if array in arrays and not inner.get(array) and copy not in arrays:
            inner[array] = inner.get(copy, ())
    return {array: inner[array] for array in arrays if inner.get(array)}


def _expand_terms(
    node: Node, sizes: Collection[str], settings: Mapping[str, Sequence[Node]], depth: int = 0
) -> set[_Term]:
    """Return an index as terms of a sum; of a variable with several values those of each."""
    node = unwrap(node)
    text, operator = get_text(node), get_part(node, "operator")
    sides = [node.child_by_field_name(side) for side in ("left", "right")]
    if text in sizes:
        return {(False, (text,))}
    if node.type == "number_literal" or (_FIXED_NAME.fullmatch(text) and text not in settings):
        return {(False, ())}
    if node.type == "binary_expression" and operator in ("+", "-", "*") and all(sides):
        left, right = (_expand_terms(each, sizes, settings, depth) for each in sides if each)
        if operator != "*":
            return left | right
        pairs = ((one, other) for one in left for other in right)
        products = {(a[0] or b[0], tuple(sorted(a[1] + b[1]))) for a, b in pairs}
        return {(True, ())} if len(products) > _MAX_TERMS else products
    found: set[_Term] = {(True, ())}
    if node.type == "identifier" and depth < _MAX_DEPTH:
        for value in settings.get(text, ()):
            found |= {t for t in _expand_terms(value, sizes, settings, depth + 1) if t[1]}
    return found if len(found) <= _MAX_TERMS else {(True, ())}


def _choose_inner(accesses: Sequence[set[_Term]]) -> tuple[str, ...]:
    """Return the sizes that all accesses have inside of the first axis, in one order."""
    orders: set[tuple[str, ...]] = set()
    for terms in accesses:
        own = [sizes for has_index, sizes in terms if has_index]
        lead = max(own, key=len, default=())
        counts = {size: sum(size in each for each in own) for size in lead}
        is_ordered = len({*counts.values()}) == len(lead) and all(
            {*each} <= {*lead} for each in own
        )
        orders |= {tuple(sorted(lead, key=lambda size: counts[size]))} if is_ordered else {("",)}
    longest = max(orders, key=len, default=())
    is_one = all(longest[len(longest) - len(each) :] == each for each in orders)
    return longest if is_one else ()


def _iter_copies(body: Node) -> Iterator[tuple[str, str]]:
    """Yield two arrays of which a statement uses the same element, either one first."""
    for node in iter_nodes(body):
        if node.type != "expression_statement":
            continue
        used = [(base, re.sub(r"\s", "", get_text(index))) for base, index in iter_subscripts(node)]
        for one, index in used:
            yield from ((one, other) for other, same in used if same == index and other != one)


_ATOMIC_COUNT = re.compile(r"atomic(?:Add|Inc|_add|_inc|_fetch_add)\w*")


def warn_of_counts(arrays: Sequence[Parameter], body: Node) -> list[str]:
    """Return a sentence for each output that a count indexes which depends on values of inputs."""
    warnings: dict[str, str] = {}
    outputs = {p.name for p in arrays if p.role == "output"}
    inputs = [p.name for p in arrays if p.role == "input"]
    settings = [*iter_settings(body)]
    depends = {name: _list_dependent(name, settings) for name in inputs}
    for base, index in iter_subscripts(body):
        if base not in outputs or base in warnings:
            continue
        conditions = [*_iter_count_conditions(index, body)]
        words = {word for each in conditions for word in _list_identifiers(each)}
        if named := [name for name in inputs if depends[name] & words]:
            warnings[base] = (
                f"{base}: how far it is written depends on the values of {', '.join(named)}, "
                f"{show_line(index).rstrip(';')}; give them as the program has them, "
                f"--set {named[0]}.fill=..., or a larger array, --set '{base}=[...]'"
            )
    return [*warnings.values()]


def _list_dependent(array: str, settings: Sequence[tuple[str, Node]]) -> set[str]:
    """Return an array, and the variables that are made of its elements."""
    held = {array}
    for _ in range(_ADDED_DEPTH):
        held |= {n.lstrip("*& ") for n, value in settings if _list_identifiers(value) & held}
    return held


def _iter_count_conditions(index: Node, body: Node) -> Iterator[Node]:
    """Yield the conditions under which a count in an index grows, of one that has no bound."""
    words = _list_identifiers(index)
    for node in iter_nodes(body):
        target = node.child_by_field_name("argument") or node.child_by_field_name("left")
        is_step = node.type == "update_expression" or get_part(node, "operator") == "+="
        is_count = is_step and get_text(target) in words and not _is_bounded(target, body)
        is_inside = index.start_byte <= node.start_byte and node.end_byte <= index.end_byte
        is_count |= is_inside and bool(_ATOMIC_COUNT.fullmatch(get_part(node, "function")))
        for outer in iter_parents(node) if is_count else ():
            condition = outer.child_by_field_name("condition")
            if outer.type == "if_statement" and condition is not None:
                yield condition


def _is_bounded(count: Node | None, body: Node) -> bool:
    """Whether a body compares a count with something, as it is."""
    for node in iter_nodes(body):
        if get_part(node, "operator") in (*_COMPARISONS, "=="):
            sides = (node.child_by_field_name(side) for side in ("left", "right"))
            if get_text(count) in {get_text(unwrap(side)) for side in sides if side is not None}:
                return True
    return False
