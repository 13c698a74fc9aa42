"""Extents of arrays as text: names, numbers and arithmetic of both."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import combinations, product

from kernelkb.model.kernels.kernel import evaluate_axis_expression

_AXIS = re.compile(r"[A-Za-z_][\w.]*")


def list_axes(shape: Sequence[str]) -> list[str]:
    """Return the names in a shape's extents, which are names, numbers and arithmetic of both."""
    return _AXIS.findall(" ".join(shape))


def rename_axes(extent: str, names: Mapping[str, str]) -> str:
    """Return an extent with other names of its axes, for those that have one."""
    return _AXIS.sub(lambda name: names.get(name[0], name[0]), extent)


def split_shape(text: str) -> tuple[str, ...]:
    """Return the extents of a shape in brackets, as ``[rows + 1, 64]``; none of an empty text."""
    return tuple(part.strip() for part in text.strip("[] ").split(",") if part.strip())


_MAX_EXTENTS = 6
_WARP = 32
_LITERAL = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'")


def split_call(text: str, start: int) -> tuple[list[str], int] | None:
    """Return the arguments of a macro from behind its parenthesis, and where they end."""
    depth, arguments, begin, quoted = 0, list[str](), start, start
    for place in range(start, min(len(text), start + 20_000)):
        letter = text[place]
        if place < quoted:
            continue
        if letter in "\"'" and (literal := _LITERAL.match(text, place)):
            quoted = literal.end()
        elif letter in "([{":
            depth += 1
        elif letter in ")]}" and depth:
            depth -= 1
        elif letter == ")":
            return [*arguments, text[begin:place]], place + 1
        elif letter == "," and not depth:
            arguments.append(text[begin:place])
            begin = place + 1
    return None


def write_shape(dims: Sequence[str]) -> str:
    """Return a shape as it is said: ``[m, k]``."""
    return f"[{', '.join(dims)}]"


def sort_by_ends(found: Sequence[str], shapes: Sequence[Sequence[str]]) -> list[str]:
    """Return shapes as text with those first that end as most rows of some others do."""
    ends = [shape[-1] for shape in shapes if shape[1:]]
    return sorted(found, key=lambda text: -ends.count((split_shape(text) or ("",))[-1]))


def count_elements(
    dims: Sequence[str], sizes: Mapping[str, Sequence[float]], count: int
) -> tuple[float, ...]:
    """Return the elements of a shape in each launch; empty where a size is not known."""
    if not dims or not {*list_axes(dims)} <= sizes.keys():
        return ()
    rows = [{axis: int(sizes[axis][at]) for axis in list_axes(dims)} for at in range(count)]
    return tuple(math.prod(evaluate_axis_expression(dim, row) for dim in dims) for row in rows)


def find_extents(
    elements: tuple[float, ...],
    sizes: Mapping[str, Sequence[float]],
    counts: tuple[int, int],
    *,
    takes_number: bool,
) -> list[str]:
    """Return the sums and quotients of sizes that an array has as elements, or their number.

    A quotient of one size that was seen may be a number as well: then both are returned. Without
    any of them, rows of a size are, as many as the launch has blocks.

    Args:
        elements: Of the array in each launch.
        sizes: Of each name in each launch.
        counts: Threads of a block, and blocks.
        takes_number: Whether the elements are those of the array alone.
    """
    threads, blocks = counts
    is_fixed = len(set(elements)) == 1
    number = [str(int(elements[0]))] * (is_fixed and takes_number)
    count = len(elements)
    sums = [f"{one} + {other}" for one, other in combinations(sizes, 2)]
    steps = [per for per in dict.fromkeys((threads, 2 * threads, _WARP)) if per > 1]
    parts = [f"({axis} + {per - 1}) // {per}" for axis in sizes for per in steps]
    fit = [t for t in sums if count_elements((t,), sizes, count) == elements]
    if not fit and set(elements) != {1}:
        fit = [t for t in parts if count_elements((t,), sizes, count) == elements]
        fit += number if is_fixed else []
    rows = [(str(blocks), axis) for axis in sizes if blocks > 1]
    rows = [dims for dims in rows if count_elements(dims, sizes, count) == elements]
    if rows and fit == number:
        return [write_shape(order) for dims in rows for order in (dims, dims[::-1])]
    return [write_shape((text,)) for text in (fit or number)[:_MAX_EXTENTS]]


def find_blocks(
    blocks: Sequence[int], sizes: Mapping[str, Sequence[float]], block: Sequence[int]
) -> str:
    """Return the blocks of a grid in each launch: a number, else a quotient of one size.

    Args:
        blocks: Along one axis of the grid, of each launch.
        sizes: Of each name in each launch.
        block: Threads along each axis of a block.

    Returns:
        C++; empty where it is neither.
    """
    if len(set(blocks)) == 1:
        return str(blocks[0])
    elements, threads = tuple(map(float, blocks)), math.prod(block)
    for axis, per in product(sizes, dict.fromkeys((1, *block, threads, 2 * threads))):
        text = f"({axis} + {per - 1}) // {per}" if per > 1 else axis
        if count_elements((text,), sizes, len(blocks)) == elements:
            return text.replace("//", "/")
    return ""
