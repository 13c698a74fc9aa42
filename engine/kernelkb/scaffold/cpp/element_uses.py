"""What the uses of an array's elements imply: that they are offsets, that some are not written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.scaffold.cpp.element_types import count_parts
from kernelkb.scaffold.cpp.syntax import (
    LOOPS,
    get_part,
    get_text,
    iter_nodes,
    iter_parents,
    iter_values,
    unwrap,
)
from kernelkb.scaffold.draft import UNKNOWN, Parameter
from kernelkb.scaffold.extents import split_shape

if TYPE_CHECKING:
    from tree_sitter import Node

_LEAVES = ("return_statement", "continue_statement", "break_statement")
_INSIDE = (
    r"{v}>(?!=|{v}\b)|{v}>=(?!0\b|{v}\b)|(?<![^(&|!])(?!{v}\b)(?:\w+<|(?!0<)\w+<=){v}\b|{v}<=?\w+-"
)
"""A condition, without blanks, under which an index is not the first, or not the last."""
_OUTSIDE = (
    r"{v}<(?!=)(?!\w+\)?\|\|\w+<0|0\b)(?=[1-9])|{v}<=(?!{v}\b)\w|{v}==0\b|{v}>=?\w+-|{v}==\w+-"
)
"""The same of a condition that leaves the body."""
_PARTS = re.compile(r"[%/]|>>|&")
"""What takes the row and the column out of an index."""
_RAISED = r"{v}(?:\+\+|\+=|<<=|\*=)|\+\+{v}|{v}={v}(?:\+|<<|\*)"
"""What makes an index larger: a loop that lowers it ends at the first one."""
_DEPTH = 3
_MAX_SHOWN = 80
"""Characters of a line that is shown beside a question."""


class _Test(NamedTuple):
    """One condition on the way to a statement, without blanks."""

    text: str
    leads_away: bool = False
    """Whether the statement is reached where it does not hold."""
    step: str = ""
    """Of a loop the text that changes its variable."""
    begin: str = ""
    """Of a loop the text that sets its variable first."""


def read_elements(each: Parameter, names: Sequence[str], body: Node) -> Parameter:
    """Return an array of a kernel with what the uses of its elements say beyond its shape."""
    if each.role == "output":
        last = each.shape[-1] if each.shape else ""
        parts = max(count_parts(each.type), int(last) if last.isdecimal() else 1)
        is_partly = not each.is_read and may_skip_elements(each.name, body, parts)
        each = each._replace(is_read=True, is_certain=False) if is_partly else each
        return _ask_counted(each, body)
    if not each.fill and find_positive(each.name, body) is not None:
        each = each._replace(fill="uniform")
    pointed = find_pointed_array(each.name, names, body)
    dims = each.shape or split_shape(each.guess)
    if pointed and len(dims) == 1:
        return each._replace(points_into=pointed, shape=(), guess=f"[{dims[0]} + 1]")
    is_integer = each.dtype in ("int32", "int64")
    if is_integer and not pointed and begins_parts(each.name, body):
        return each._replace(points_into=UNKNOWN)
    each = each._replace(points_into=pointed or each.points_into)
    return each if each.points_into else _read_choice(each, names, body)


def _is_made_integer(node: Node, array: str, held: Collection[str]) -> bool:
    """Whether an expression is a cast to an integer of an element, as it is."""
    is_cast = node.type in ("cast_expression", "call_expression") and unwrap(node) != node
    return is_cast and _is_element(unwrap(node), array, held)


def _bounds(held: Collection[str], counted: Collection[str], body: Node) -> bool:
    """Whether one of some variables is compared with one that an index is made of."""
    for node in iter_nodes(body):
        if get_part(node, "operator") in ("<", "<=", ">", ">="):
            sides = {get_part(node, "left"), get_part(node, "right")}
            if sides & {*held} and sides & {*counted}:
                return True
    return False


def _ask_counted(each: Parameter, body: Node) -> Parameter:
    """Return an output with the question for its values before, if integers are counted in it."""
    uses = [n for n in iter_nodes(body) if n.type == "identifier" and get_text(n) == each.name]
    counts = [_COUNTS.match(show_line(n).partition(": ")[2]) for n in uses]
    moves = [n.parent is not None and n.parent.type in _MOVES for n in uses]
    is_counted = any(counts) and all(map(any, zip(counts, moves, strict=True)))
    if not (is_counted and (each.dtype or "").startswith(("int", "uint"))):
        return each
    first = next(node for node, is_count in zip(uses, counts, strict=True) if is_count)
    return each._replace(asks_fill=("zeros|integers 32", show_line(first)))


_COUNTS = re.compile(
    r"(?:.*[=(\s])?atomic(?!Exch)\w+\(|\w+\[[^;=]*\]\s*(?:\+\+|--|[-+]=)|\+\+\w+\[|\*\w+\s*[-+]="
)
_MOVES = ("assignment_expression", "init_declarator")
"""Around a pointer that is set, or copied: ``histogram += row * 256``."""


def show_line(node: Node) -> str:
    """Return the first line of the statement that holds a node, with its number."""
    ends = ("statement", "declaration")
    outer = next((o for o in iter_parents(node) if o.type.endswith(ends)), node)
    shown = get_text(outer).splitlines()[0].strip()[:_MAX_SHOWN]
    return f"line {outer.start_point[0] + 1}: {shown}"


def _read_choice(each: Parameter, names: Sequence[str], body: Node) -> Parameter:
    """Return an array with the one of which its elements are places, or with that question.

    Integers that are an index as they are lie below a size of the other array. It is asked of
    floats that are made integers, of a number behind a pointer, and of integers that bound an
    index of others, as where the rows of a sparse matrix begin.
    """
    values: dict[str, list[Node]] = {}
    for name, value in iter_settings(body):
        values.setdefault(name, []).append(value)
    held = {name for name, own in values.items() if all(_read_base(v) == each.name for v in own)}
    is_integer = each.dtype in ("int32", "int64")
    indices = [index for base, index in iter_subscripts(body) if base in {*names} - {each.name}]
    if (each.dtype or "").startswith(("float", "bfloat")):
        cast = next((n for n in iter_nodes(body) if _is_made_integer(n, each.name, held)), None)
        chosen = (index for index in indices if _list_names(index) & held)
        place = cast or next(chosen, None)
        return each._replace(asks_fill=("integers 32", show_line(place))) if place else each
    for base, index in iter_subscripts(body) if is_integer else ():
        is_other = base in names and base != each.name
        if is_other and _is_element(unwrap(index), each.name, held):
            return each._replace(indexes=(base, 0))
    places = {_drop_blanks(index) for base, index in iter_subscripts(body) if base == each.name}
    counted = {name for index in indices for name in _list_names(index)}
    if is_integer and any("+1" in place for place in places) and _bounds(held, counted, body):
        return each._replace(points_into=UNKNOWN)
    pointers = [n for n in iter_nodes(body) if get_text(n) == f"*{each.name}"]
    if is_integer and pointers:
        why = "one number behind a pointer: 'integers 9 from 8' is 8"
        return each._replace(asks_fill=("integers 32", f"{show_line(pointers[0])}; {why}"))
    return each


_OF_POSITIVE = re.compile(r"(?:__|std::)?(?:log(?:2|10)?f?|r?sqrtf?|powf?)")
"""Functions whose first argument is to be positive."""


def find_positive(array: str, body: Node) -> Node | None:
    """Return what divides by an array's element, or takes a logarithm or a root of it as it is."""
    held = {name for name, value in iter_settings(body) if _read_base(value) == array}
    for node in iter_nodes(body):
        places: list[Node] = []
        given = node.child_by_field_name("arguments")
        if node.type == "call_expression" and given and given.named_children:
            called = get_part(node, "function")
            first = given.named_children[0]
            places = [*_iter_addends(first)] if _OF_POSITIVE.fullmatch(called) else []
        elif get_part(node, "operator") in ("/", "/=", "%", "%="):
            places = [each for each in (node.child_by_field_name("right"),) if each]
        if any(_is_element(f, array, held) for each in places for f in _iter_factors(each)):
            return node
    return None


def _iter_factors(node: Node) -> Iterator[Node]:
    """Yield the factors and divisors of a product; an expression that is none is its own."""
    node = unwrap(node)
    sides = [node.child_by_field_name(side) for side in ("left", "right")]
    if get_part(node, "operator") not in ("*", "/") or None in sides:
        yield node
    for side in sides:
        if side is not None and get_part(node, "operator") in ("*", "/"):
            yield from _iter_factors(side)


def _iter_addends(node: Node) -> Iterator[Node]:
    """Yield the addends of ``x[i] + eps`` but products; an expression that is no sum is its own."""
    node = unwrap(node)
    is_sum = get_part(node, "operator") == "+"
    for side in node.named_children if is_sum else (node,):
        if not (is_sum and get_part(unwrap(side), "operator") in ("*", "/")):
            yield unwrap(side)


def _is_element(node: Node, array: str, held: Collection[str]) -> bool:
    return _read_base(node) == array or (node.type == "identifier" and get_text(node) in held)


def find_pointed_array(array: str, others: Sequence[str], body: Node) -> str:
    """Return the array in which the elements of one say where parts begin; empty for none.

    ``UNKNOWN`` where they bound a loop, and it is not seen what that reads.

    They are read side by side, ``begin[row]`` and ``begin[row + 1]``, and an index that runs
    between them chooses elements of the other one.
    """
    places = {_drop_blanks(index) for base, index in iter_subscripts(body) if base == array}
    if not any(f"{place}+1" in places or f"1+{place}" in places for place in places):
        return ""
    running: set[str] = set()
    for _ in range(_DEPTH):
        for name, value in iter_settings(body):
            if _list_direct_names(value, array) & {array, *running}:
                running.add(name)
    for base, index in iter_subscripts(body):
        names = _list_names(index)
        is_direct = all(node.type != "subscript_expression" for node in iter_nodes(index))
        if base in others and base != array and names & running and is_direct:
            return base
    loops = (node for node in iter_nodes(body) if node.type in LOOPS)
    conditions = (loop.child_by_field_name("condition") for loop in loops)
    return UNKNOWN if any(_list_names(each) & running for each in conditions) else ""


def begins_parts(array: str, body: Node) -> bool:
    """Whether elements of an array are where parts of another one begin, each by itself.

    As ``x[first[block] + thread]``; or they bound a loop from below, and those of another array
    from above: ``for (j = first[row]; j < last[row]; j++)``.
    """
    values = dict(iter_settings(body))
    held = {name for name, value in values.items() if _read_base(value) == array}
    for node in iter_nodes(body):
        if node.type == "binary_expression" and get_part(node, "operator") == "+":
            sides = [node.child_by_field_name(side) for side in ("left", "right")]
            is_side = [_read_base(s) == array or get_text(s) in held for s in sides]
            other = sides[is_side[0]]
            if any(is_side) and not get_text(other).isdecimal() and _is_index(node, values, body):
                return True
    loops = [node for node in iter_nodes(body) if node.type == "for_statement"]
    return any(array in bounds for loop in loops if len(bounds := _list_bounds(loop, values)) == 2)


def _read_base(node: Node | None) -> str:
    """Return the array of which an expression is one element; empty for another expression."""
    node = unwrap(node) if node is not None else None
    is_element = node is not None and node.type == "subscript_expression"
    return get_part(node, "argument") if is_element else ""


def _is_index(node: Node, values: Mapping[str, Node], body: Node) -> bool:
    """Whether an expression is the index of an element, itself or by a variable."""
    held = {name for name, value in values.items() if unwrap(value) == node}
    indices = [index for _, index in iter_subscripts(body)]
    return any(unwrap(index) == node or get_text(index) in held for index in indices)


def _list_bounds(loop: Node, values: Mapping[str, Node]) -> set[str]:
    """Return the arrays whose elements a loop's variable begins with, and stays below."""
    begin = loop.child_by_field_name("initializer")
    first = next((v for _, v in iter_settings(begin)), None) if begin is not None else None
    last = loop.child_by_field_name("condition")
    ends = (first, last.child_by_field_name("right") if last is not None else None)
    found = {_read_base(values.get(get_text(each), each)) for each in ends}
    return found - {""}


class _Store(NamedTuple):
    """One assignment to an element of an array."""

    left: Node
    indices: tuple[Node, ...]
    """What its elements are chosen by: also where a pointer into the array points."""
    member: str
    """Of an element that is a vector or a structure, the one that is set; empty for all."""


class _Values(NamedTuple):
    """What the variables of a body are set to."""

    nodes: Mapping[str, Sequence[Node]]
    read: Collection[str]
    """Those whose values come from elements of arrays."""
    moving: Collection[str]
    """Those that tell threads apart, or count in a loop."""
    changed: Collection[str]
    """Those that are counted up or down."""
    pointers: Collection[str] = ()
    """Those into the array that is looked at."""


def may_skip_elements(array: str, body: Node, parts: int = 1) -> bool:
    """Whether the stores to an array leave out elements, which keep the values of before the call.

    The first or the last one, as a stencil does, those that the values of other arrays choose,
    those between the steps of an index, or some of the ``parts`` members of each.
    """
    starts: dict[str, tuple[Node, ...]] = {array: ()}
    stores = [*_iter_stores(starts, body)]
    values = _collect_values(body)._replace(pointers=starts.keys())
    members = {each.member for each in stores}
    if stores and "" not in members and len(members) < parts:
        return True
    return bool(stores) and (
        _has_gaps(stores, values) or all(_is_inside(each, values) for each in stores)
    )


_RACE = (
    "{0} is stored where {1} says: equal values of {1} race, and the result is not the same in "
    "each run; --set {1}.fill=permutation has none"
)

_SAME = re.compile(r"-?[\d.]+[fFuUlL]*|[A-Z][A-Z\d_]*|true|false|")
"""One value for all threads, which may store it in any order."""


def list_races(outputs: Collection[str], inputs: Collection[str], body: Node) -> list[str]:
    """Return a sentence for each input that may say twice where a number is stored."""
    values = _collect_values(body)
    found: dict[str, None] = {}
    for output in sorted(outputs):
        for store in _iter_stores({output: ()}, body):
            right = store.left.parent and store.left.parent.child_by_field_name("right")
            nodes = [each for index in store.indices for each in iter_nodes(index)]
            names = {get_text(each) for each in nodes} & {*values.read}
            nodes += [n for name in names for v in values.nodes[name] for n in iter_nodes(v)]
            chosen = {_read_base(each) for each in nodes} & {*inputs}
            if not _SAME.fullmatch(get_text(right)):
                found |= dict.fromkeys(map(_RACE.format, [output] * len(chosen), sorted(chosen)))
    return [*found]


def _iter_stores(starts: dict[str, tuple[Node, ...]], body: Node) -> Iterator[_Store]:
    """Yield the stores to an array, and add the pointers into it to its name in ``starts``."""
    array = next(iter(starts))
    for name, value in iter_values(body):
        base = next((n for n in _list_direct_names(value, array) if n in starts), None)
        if base is not None and name.type == "pointer_declarator" and _is_pointer(value, base):
            starts[get_text(name).lstrip("* ")] = (*starts[base], value)
    for node in iter_nodes(body):
        left = node.child_by_field_name("left")
        if node.type != "assignment_expression" or left is None:
            continue
        member = get_part(left, "field") if left.type == "field_expression" else ""
        element = left.child_by_field_name("argument") if member else left
        if element is None or element.type not in ("subscript_expression", "pointer_expression"):
            continue
        base = get_part(element, "argument")
        listed = element.child_by_field_name("indices")
        if listed is None:  # *(y + i)
            names = re.findall(r"[A-Za-z_]\w*", base) if "*)" not in base else []
            base, listed = next((n for n in names if n in starts), ""), element
        if base in starts:
            yield _Store(left, (*starts[base], listed), member)


def _is_pointer(value: Node, base: str) -> bool:
    """Whether an expression is a pointer into an array of its type, and no element or cast."""
    text = _drop_blanks(value)
    return "*)" not in text and ("&" in text or f"{base}[" not in text)


def _collect_values(body: Node) -> _Values:
    nodes: dict[str, list[Node]] = {}
    for name, value in iter_settings(body):
        nodes.setdefault(name, []).append(value)
    loops = (n.child_by_field_name("initializer") for n in iter_nodes(body))
    counted = {name for loop in loops if loop is not None for name, _ in iter_settings(loop)}
    changed = {get_part(n, "argument") for n in iter_nodes(body) if n.type == "update_expression"}
    moving = set(counted)
    for _ in range(_DEPTH):
        moving |= {
            name
            for name, values in nodes.items()
            for value in values
            if re.search(r"threadIdx|blockIdx", get_text(value)) or _list_names(value) & moving
        }
    return _Values(nodes, _list_read(body) - counted, moving, changed)


def _has_gaps(stores: Sequence[_Store], values: _Values) -> bool:
    """Whether an index takes larger steps than the stores of one step fill: ``y[2 * i]``."""
    found = [_read_step(index, values) for store in stores for index in store.indices]
    step = gcd(*(each for each, _ in found))
    ends = {sum(_read_step(i, values)[1] for i in each.indices) % (step or 1) for each in stores}
    return 1 < step != len(ends)


def _read_step(node: Node, values: _Values, depth: int = 0) -> tuple[int, int]:
    """Return what the values of an index differ by at least, 0 for a constant; and one of them."""
    listed = node.child_by_field_name("indices")
    inner = (listed or node).named_children
    if listed is not None or node.type in ("subscript_argument_list", "pointer_expression"):
        return _read_step(inner[0], values, depth) if inner else (1, 0)
    node = unwrap(node)
    text = get_text(node)
    own = values.nodes.get(text, ())
    if text.isdecimal() or text in values.pointers:
        return 0, int(text) if text.isdecimal() else 0
    if len(own) == 1 and text not in values.changed and depth < _DEPTH:
        return _read_step(own[0], values, depth + 1)
    left, right = (node.child_by_field_name(side) for side in ("left", "right"))
    operator = get_part(node, "operator")
    if operator not in ("+", "-", "*") or left is None or right is None:
        return _UNKNOWN_STEP if _STEP_NAME.fullmatch(text) else 1, 0
    (one, first), (other, last) = (_read_step(each, values, depth) for each in (left, right))
    if operator == "*":
        is_constant, named = not (one or other), _UNKNOWN_STEP in (one, other)
        step = 0 if is_constant else (one or first) * (other or last)
        return _UNKNOWN_STEP if named else step, first * last
    return gcd(one, other), first - last if operator == "-" else first + last


_UNKNOWN_STEP = 2**31 - 1
"""Of an index that is multiplied by a step that the call says: ``y[i * incy]``."""
_STEP_NAME = re.compile(r"inc_?\w|(?:\w+_)?(?:stride|step|inc)(?:_?\w)?")


def _list_read(body: Node) -> set[str]:
    """Return the variables whose values come from elements of arrays, or from atomic counters."""
    read: set[str] = set()
    for _ in range(_DEPTH):
        for name, value in iter_settings(body):
            if _list_names(value) & read or _is_read(value):
                read.add(name)
    return read


def _is_read(node: Node) -> bool:
    return any(n.type == "subscript_expression" for n in iter_nodes(node)) or bool(
        re.search(r"\batomic\w+\s*\(", get_text(node))
    )


def _is_inside(store: _Store, values: _Values) -> bool:
    known = values.nodes.keys()
    names = known & {name for index in store.indices for name in _list_names(index)}
    for _ in range(_DEPTH):
        names |= known & {w for n in names for value in values.nodes[n] for w in _list_names(value)}
    inner = [each for index in store.indices for each in index.named_children]
    if names & {*values.read} or any(map(_is_read, inner)):
        return True
    derived = {
        name
        for name in known - names
        if all(_PARTS.search(get_text(v)) and _list_names(v) & names for v in values.nodes[name])
    }
    if any(_leaves_out(test, derived, get_text(store.left)) for test in _iter_tests(store.left)):
        return True
    texts = [*map(get_text, store.indices), *(get_text(v) for n in names for v in values.nodes[n])]
    is_whole = not any(re.search(r"/|>>", text) for text in texts)
    return any(
        _leaves_out(test, names, get_text(store.left))
        or _chooses(test, names & {*values.moving}, is_whole=is_whole)
        or (
            not test.step
            and ("[" in test.text or bool({*values.read} & {*re.findall(r"\w+", test.text)}))
        )
        for test in _iter_tests(store.left)
    )


def _chooses(test: _Test, names: Collection[str], *, is_whole: bool) -> bool:
    """Whether a condition takes one part of the elements only: a triangle, or each second one.

    ``is_whole`` says that no index is divided, so that each second one may be all that there are.
    """
    either = "|".join(map(re.escape, sorted(names))) or "(?!)"
    own = rf"(?<![\w+*/.\])-])(?:{either})"
    is_triangle = rf"{own}(?:[<>]=?|[!=]=)(?:{either})(?![\w+*/.\[(-])"
    is_part = rf"{own}(?:%\w+|&1\)?)(?:[!=]=|$)"
    return bool(re.search(is_triangle, test.text) or (is_whole and re.search(is_part, test.text)))


def _leaves_out(test: _Test, names: Collection[str], stored: str) -> bool:
    """Whether a condition keeps an index from the first or the last element.

    Of a loop only what it counts up is one: the others say where a part of the array begins.
    """
    if test.step:
        names = {n for n in names if re.search(_RAISED.format(v=rf"\b{re.escape(n)}\b"), test.step)}
    either = rf"\b(?:{'|'.join(map(re.escape, sorted(names))) or '(?!)'})"
    is_shifted = re.search(rf"{either}\s*-", stored)
    if test.begin and not is_shifted and re.search(rf"{either}\s*=\s*[1-9]\d*\s*[;,]", test.begin):
        return True
    pattern = _OUTSIDE if test.leads_away else _INSIDE
    return re.search(pattern.format(v=either), test.text) is not None


def _iter_tests(store: Node) -> Iterator[_Test]:
    """Yield each condition on the way to a statement."""
    inner = store
    for outer in iter_parents(store):
        test = _drop_blanks(outer.child_by_field_name("condition"))
        if outer.type == "if_statement" and outer.child_by_field_name("consequence") == inner:
            yield _Test(test)
        elif outer.type in LOOPS and outer.child_by_field_name("body") == inner:
            step = _drop_blanks(outer.child_by_field_name("update") or inner)
            begin = get_part(outer, "initializer")
            yield _Test(test, step=step, begin=begin)
        elif outer.type == "compound_statement":
            for node in outer.named_children:
                if node.start_byte >= inner.start_byte:
                    break
                taken = node.child_by_field_name("consequence")
                if node.type == "if_statement" and any(
                    each.type in _LEAVES for each in iter_nodes(taken)
                ):
                    text = _drop_blanks(node.child_by_field_name("condition"))
                    yield _Test(text, leads_away=True)
        inner = outer


def iter_subscripts(body: Node) -> Iterator[tuple[str, Node]]:
    """Yield the array and the index of each element that a body uses."""
    for node in iter_nodes(body):
        listed = node.child_by_field_name("indices")
        if node.type == "subscript_expression" and listed is not None and listed.named_children:
            yield get_part(node, "argument"), listed.named_children[0]


def iter_settings(body: Node) -> Iterator[tuple[str, Node]]:
    """Yield what each variable is set to."""
    for name, value in iter_values(body):
        yield get_text(name), value
    for node in iter_nodes(body):
        left, right = (node.child_by_field_name(side) for side in ("left", "right"))
        if node.type == "assignment_expression" and left is not None and right is not None:
            yield get_text(left), right


def _list_names(node: Node | None) -> set[str]:
    return {get_text(each) for each in iter_nodes(node) if each.type == "identifier"}


def _list_direct_names(node: Node, array: str) -> set[str]:
    """Return the names of an expression, without those that choose elements of other arrays."""
    inner = {
        each
        for outer in iter_nodes(node)
        if outer.type == "subscript_expression" and get_part(outer, "argument") != array
        for each in iter_nodes(outer)
    }
    return {
        get_text(each)
        for each in iter_nodes(node)
        if each.type == "identifier" and each not in inner
    }


def _drop_blanks(node: Node | None) -> str:
    return re.sub(r"\s", "", get_text(node))
