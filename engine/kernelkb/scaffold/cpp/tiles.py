"""Sizes that are multiples: of a tile whose last elements no test guards, of what a grid drops."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import lcm
from typing import TYPE_CHECKING

from kernelkb.scaffold.cpp.syntax import (
    Declaration,
    get_part,
    get_text,
    iter_nodes,
    iter_parents,
    iter_values,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_RELATIONS = ("<", "<=", ">", ">=", "==", "!=", "&&", "||")
_DIVIDED = re.compile(r"(?<![\w.)])([A-Za-z_]\w*)\s*/\s*\(?([A-Za-z_]\w*|\d+)\b(?!\s*\)?\s*[.+])")
"""A size that is divided without the rest: ``n / 64``, and not ``(n + 63) / 64``."""
_SETTINGS = ("init_declarator", "assignment_expression")
_DEPTH = 3


def list_tile_steps(
    kernel: Declaration, sizes: Sequence[str], numbers: Mapping[str, int], block: Sequence[int]
) -> Iterator[tuple[str, int]]:
    """Yield each size of a kernel that has to be a multiple of a number, with that number.

    Args:
        kernel: Its declaration.
        sizes: Its integers.
        numbers: Values of constants and of its template's parameters.
        block: The three extents of its blocks; 0 for one that is not known.
    """
    if kernel.body is None:
        return
    known = {**numbers, **{f"blockDim.{axis}": n for axis, n in zip("xyz", block, strict=False)}}
    guarded, steps = _list_guarded(kernel.body), _list_loop_steps(kernel.body)
    tile = lcm(*(n for word in _list_tiles(kernel.body) if (n := _read(word, known)) > 1))
    if not _list_tiles(kernel.body, guarded):  # each place is tested: what counts nothing is free
        counting = _list_counting(kernel.body)
        sizes = [size for size in sizes if size in counting]
    for size in sizes:
        step = lcm(*(_read(each, known) or 1 for each in steps.get(size, ())))
        if size not in guarded:
            step = step if size in steps else tile
            yield from [(size, step)] if step > 1 else []


def list_grid_steps(
    grid: str, texts: Mapping[str, str], numbers: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    """Yield each size that the grid of a launch divides without the rest, with the divisor."""
    for _ in range(_DEPTH):
        grid = re.sub(r"\b[A-Za-z_]\w*\b(?!\s*[(.])", lambda m: _spell_out(m[0], texts), grid)
    if re.search(r"\w*ceil\w*\s*\(|\w*(?:div|DIV)\w*\s*\(", grid):
        return
    for size, by in _DIVIDED.findall(grid):
        if (step := _read(by, numbers)) > 1:
            yield size, step


def _spell_out(name: str, texts: Mapping[str, str]) -> str:
    text = texts.get(name, "")
    return f"({text})" if re.search(r"[/(,]", text) else name


def _read(word: str, numbers: Mapping[str, int]) -> int:
    return int(word) if word.isdecimal() else numbers.get(word, 0)


def _list_guarded(body: Node) -> set[str]:
    """Return the names that a body compares with something, or hands to a function.

    Those that only end a loop which begins with a number are left out.
    """
    values: dict[str, set[str]] = {}
    for name, value in iter_values(body):
        values.setdefault(get_text(name), set()).update(re.findall(r"\w+", get_text(value)))
    found = set[str]()
    for node in iter_nodes(body):
        is_test = node.type == "binary_expression" and get_part(node, "operator") in _RELATIONS
        if is_test and not _ends_plain_loop(node):
            found |= {*re.findall(r"\w+", get_text(node))}
        if node.type == "argument_list":
            found |= {get_text(each) for each in node.named_children}
    for _ in range(_DEPTH):
        found |= {word for name in found & values.keys() for word in values[name]}
    return found


def _ends_plain_loop(test: Node) -> bool:
    """Whether a comparison ends a loop whose variable does not begin with that of a thread."""
    loop = next((o for o in iter_parents(test) if o.type.endswith("statement")), None)
    if loop is None or loop.type != "for_statement":
        return False
    begin = get_part(loop, "initializer")
    is_end = loop.child_by_field_name("condition") == test
    return is_end and not re.search(r"[A-Za-z_]\w*\.[xyz]|[=,]\s*[A-Za-z_]", begin)


def _list_loop_steps(body: Node) -> dict[str, set[str]]:
    """Map each name that ends a plain loop to what that counts up by."""
    found: dict[str, set[str]] = {}
    for node in iter_nodes(body):
        end = node.child_by_field_name("condition")
        if node.type == "for_statement" and end is not None and _ends_plain_loop(end):
            step = re.search(r"\+=\s*(\w+)", get_part(node, "update"))
            found.setdefault(get_part(end, "right"), set()).add(step[1] if step else "1")
    return found


def _list_counting(body: Node) -> set[str]:
    """Return the names in the conditions of loops, and in what these are computed from."""
    loops = (
        node
        for node in iter_nodes(body)
        if node.type.endswith(("for_statement", "while_statement"))
    )
    found = {w for loop in loops for w in re.findall(r"\w+", get_part(loop, "condition"))}
    values = {get_text(name): {*re.findall(r"\w+", get_text(v))} for name, v in iter_values(body)}
    for _ in range(_DEPTH):
        found |= {word for name in found & values.keys() for word in values[name]}
    return found


def _list_tiles(body: Node, guarded: Collection[str] = ()) -> Collection[str]:
    """Return what the places of a block are multiplied by: numbers and names.

    None of a variable that is in ``guarded``.
    """
    text = get_text(body)
    aliases = re.findall(r"\b(\w+)\s*=\s*(?:\(\w+\)\s*)?blockIdx\.[xyz]\s*[;,]", text)
    place = re.compile("|".join((r"blockIdx\.[xyz]", *aliases)))
    found = dict[str, None]()
    for node in iter_nodes(body):
        is_whole = node.parent is not None and get_part(node.parent, "operator") != "*"
        outer = next((o for o in iter_parents(node) if o.type in _SETTINGS), node)
        if (get_part(outer, "declarator") or get_part(outer, "left")) in guarded:
            continue
        if get_part(node, "operator") == "*" and node.type == "binary_expression" and is_whole:
            factors = re.split(r"\s*\*\s*", get_text(node))
            found |= dict.fromkeys(factors if any(map(place.fullmatch, factors)) else ())
    return found
