"""What the uses of an array's elements imply: that they are offsets, that some are not written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.scaffold.cpp.syntax import (
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
_LOOPS = ("for_statement", "while_statement")
_RAISED = r"{v}(?:\+\+|\+=|<<=|\*=)|\+\+{v}|{v}={v}(?:\+|<<|\*)"
"""What makes an index larger: a loop that lowers it ends at the first one."""
_DEPTH = 3


class _Test(NamedTuple):
    """One condition on the way to a statement, without blanks."""

    text: str
    leads_away: bool = False
    """Whether the statement is reached where it does not hold."""
    step: str = ""
    """Of a loop the text that changes its variable."""


def read_elements(each: Parameter, names: Sequence[str], body: Node) -> Parameter:
    """Return an array of a kernel with what the uses of its elements say beyond its shape."""
    if each.role == "output":
        is_partly = not each.is_read and may_skip_elements(each.name, body)
        return each._replace(is_read=True, is_certain=False) if is_partly else each
    pointed = find_pointed_array(each.name, names, body)
    dims = each.shape or split_shape(each.guess)
    if pointed and len(dims) == 1:
        return each._replace(points_into=pointed, shape=(), guess=f"[{dims[0]} + 1]")
    is_integer = each.dtype in ("int32", "int64")
    if is_integer and not pointed and begins_parts(each.name, body):
        return each._replace(points_into=UNKNOWN)
    return each._replace(points_into=pointed or each.points_into)


def find_pointed_array(array: str, others: Sequence[str], body: Node) -> str:
    """Return the array in which the elements of one say where parts begin; empty for none.

    ``UNKNOWN`` where they bound a loop, and it is not seen what that reads.

    They are read side by side, ``begin[row]`` and ``begin[row + 1]``, and an index that runs
    between them chooses elements of the other one.

    Args:
        array: The parameter's name.
        others: The names of all arrays.
        body: The kernel's body.
    """
    places = {_drop_blanks(index) for base, index in _iter_subscripts(body) if base == array}
    if not any(f"{place}+1" in places or f"1+{place}" in places for place in places):
        return ""
    running: set[str] = set()
    for _ in range(_DEPTH):
        for name, value in _iter_settings(body):
            if _list_direct_names(value, array) & {array, *running}:
                running.add(name)
    for base, index in _iter_subscripts(body):
        names = _list_names(index)
        is_direct = all(node.type != "subscript_expression" for node in iter_nodes(index))
        if base in others and base != array and names & running and is_direct:
            return base
    loops = (node for node in iter_nodes(body) if node.type in _LOOPS)
    conditions = (loop.child_by_field_name("condition") for loop in loops)
    return UNKNOWN if any(_list_names(each) & running for each in conditions) else ""


def begins_parts(array: str, body: Node) -> bool:
    """Whether elements of an array are where parts of another one begin, each by itself.

    As ``x[first[block] + thread]``; or they bound a loop from below, and those of another array
    from above: ``for (j = first[row]; j < last[row]; j++)``.
    """
    values = dict(_iter_settings(body))
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
    indices = [index for _, index in _iter_subscripts(body)]
    return any(unwrap(index) == node or get_text(index) in held for index in indices)


def _list_bounds(loop: Node, values: Mapping[str, Node]) -> set[str]:
    """Return the arrays whose elements a loop's variable begins with, and stays below."""
    begin = loop.child_by_field_name("initializer")
    first = next((v for _, v in _iter_settings(begin)), None) if begin is not None else None
    last = loop.child_by_field_name("condition")
    ends = (first, last.child_by_field_name("right") if last is not None else None)
    found = {_read_base(values.get(get_text(each), each)) for each in ends}
    return found - {""}


def may_skip_elements(array: str, body: Node) -> bool:
    """Whether each store to an array stands under a test that leaves out elements.

    Its first or last one, as a stencil does, or those that the values of other arrays choose. What
    is left as it is keeps the values of before the call.
    """
    values: dict[str, set[str]] = {}
    for name, value in _iter_settings(body):
        values.setdefault(name, set()).update(_list_names(value))
    stores = [
        node
        for node in iter_nodes(body)
        if node.type == "assignment_expression"
        and (left := node.child_by_field_name("left")) is not None
        and left.type == "subscript_expression"
        and get_part(left, "argument") == array
    ]
    read = _list_read(body)
    return bool(stores) and all(_is_inside(node, values, read) for node in stores)


def _list_read(body: Node) -> set[str]:
    """Return the variables whose values come from elements of arrays."""
    read: set[str] = set()
    for _ in range(_DEPTH):
        for name, value in _iter_settings(body):
            if _list_names(value) & read or any(
                node.type == "subscript_expression" for node in iter_nodes(value)
            ):
                read.add(name)
    return read


def _is_inside(store: Node, values: dict[str, set[str]], read: set[str]) -> bool:
    names = values.keys() & _list_names(store.child_by_field_name("left"))
    for _ in range(_DEPTH):
        names |= values.keys() & {each for name in names for each in values[name]}
    return any(
        _leaves_out(test, names)
        or (not test.step and bool("[" in test.text or read & set(re.findall(r"\w+", test.text))))
        for test in _iter_tests(store)
    )


def _leaves_out(test: _Test, names: set[str]) -> bool:
    """Whether a condition keeps an index from the first or the last element.

    Of a loop only what it counts up is one: the others say where a part of the array begins.
    """
    if test.step:
        names = {n for n in names if re.search(_RAISED.format(v=rf"\b{re.escape(n)}\b"), test.step)}
    either = rf"\b(?:{'|'.join(map(re.escape, sorted(names))) or '(?!)'})"
    pattern = _OUTSIDE if test.leads_away else _INSIDE
    return re.search(pattern.format(v=either), test.text) is not None


def _iter_tests(store: Node) -> Iterator[_Test]:
    """Yield each condition on the way to a statement."""
    inner = store
    for outer in iter_parents(store):
        test = _drop_blanks(outer.child_by_field_name("condition"))
        if outer.type == "if_statement" and outer.child_by_field_name("consequence") == inner:
            yield _Test(test)
        elif outer.type in _LOOPS and outer.child_by_field_name("body") == inner:
            step = _drop_blanks(outer.child_by_field_name("update") or inner)
            yield _Test(test, step=step)
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


def _iter_subscripts(body: Node) -> Iterator[tuple[str, Node]]:
    for node in iter_nodes(body):
        listed = node.child_by_field_name("indices")
        if node.type == "subscript_expression" and listed is not None and listed.named_children:
            yield get_part(node, "argument"), listed.named_children[0]


def _iter_settings(body: Node) -> Iterator[tuple[str, Node]]:
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
