"""Integers of an array that a kernel adds to an index: drawn ones may lead out of bounds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from kernelkb.scaffold.cpp.element_uses import iter_settings, iter_subscripts, show_line
from kernelkb.scaffold.cpp.syntax import get_part, get_text, unwrap
from kernelkb.scaffold.draft import Parameter

if TYPE_CHECKING:
    from tree_sitter import Node

_CLAMPS = re.compile(r"(?:std::)?(?:min|max|clamp)")
_DEPTH = 4
"""Variables, and arrays of a block's shared memory, that a value goes through."""


def ask_added(array: Parameter, body: Node | None) -> Parameter:
    """Return an array of integers with the question for them, if they are added to an index.

    Those that are an index as they are, or the number of a row, are drawn below its size.

    Args:
        array: An input that is not seen to hold offsets or places.
        body: The kernel's body.
    """
    is_known = array.fill or array.points_into or array.indexes[0] or array.asks_fill[0]
    is_integer = array.role == "input" and array.dtype in ("int32", "int64")
    if body is None or is_known or not is_integer:
        return array
    held = {array.name}
    for _ in range(_DEPTH):
        for name, value in iter_settings(body):
            if any(_is_held(each, held) for each in _iter_addends(value)):
                held.add(name.lstrip("* ").partition("[")[0])
    for base, index in iter_subscripts(body):
        addends = [*_iter_addends(index)]
        is_sum = len(addends) > 1 or _is_summed(get_text(index), held, body)
        if base != array.name and is_sum and any(_is_held(each, held) for each in addends):
            why = f"its values are added to an index, {show_line(index)}"
            return array._replace(asks_fill=("integers 32|zeros", why))
    return array


def _iter_addends(node: Node) -> Iterator[Node]:
    """Yield the parts of a sum or a difference but numbers; another expression is its own."""
    node = unwrap(node)
    is_sum = get_part(node, "operator") in ("+", "-") and node.type == "binary_expression"
    for side in node.named_children if is_sum else ():
        yield from _iter_addends(side)
    if not is_sum and node.type != "number_literal":
        yield node


def _is_held(node: Node, held: Collection[str]) -> bool:
    """Whether an expression is an element of an array, or a variable, that holds such values."""
    if node.type == "call_expression" and not _CLAMPS.fullmatch(get_part(node, "function")):
        given = node.child_by_field_name("arguments")
        return given is not None and any(_is_held(each, held) for each in given.named_children)
    is_element = node.type == "subscript_expression"
    text = get_part(node, "argument") if is_element else get_text(node)
    return node.type in ("identifier", "subscript_expression") and text.partition("[")[0] in held


def _is_summed(name: str, held: Collection[str], body: Node) -> bool:
    """Whether a variable is a sum with such values."""
    own = [[*_iter_addends(value)] for each, value in iter_settings(body) if each == name]
    return any(len(parts) > 1 and any(_is_held(p, held) for p in parts) for parts in own)
