"""The launch of a Triton kernel from the sizes of its tensors: grid, strides, constants.

A recorded launch holds numbers. Written as expressions of sizes, where they fit every recorded
call, they also hold for sizes that the program did not use.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

Call = Mapping[str, Any]


class SizeCode(NamedTuple):
    """An expression of tensors, and its value in each call."""

    text: str
    values: tuple[int, ...]


def list_sizes(
    calls: Sequence[Call], names: Sequence[str], made: Sequence[int]
) -> tuple[SizeCode, ...]:
    """Return what tensors have: dimensions, elements, rows, strides.

    Args:
        calls: At least one.
        names: Of the tensors, in their order.
        made: Those that are no inputs; what inputs have comes first.
    """
    found = []
    for at, name in sorted(enumerate(names), key=lambda row: row[0] in made):
        shapes = [call["tensors"][at]["shape"] for call in calls]
        strides = [call["tensors"][at]["strides"] for call in calls]
        rank = range(len(shapes[0]))
        found += [_pick(f"{name}.shape[{n}]", n, shapes) for n in rank]
        counts = tuple(math.prod(shape) for shape in shapes)
        found.append(SizeCode(f"{name}.numel()", counts))
        if len(rank) > 2 and all(shape[-1] for shape in shapes):
            rows = tuple(n // shape[-1] for n, shape in zip(counts, shapes, strict=True))
            found.append(SizeCode(f"{name}.numel() // {name}.shape[-1]", rows))
        found += [_pick(f"{name}.stride({n})", n, strides) for n in rank]
    return tuple(found)


def _pick(text: str, place: int, rows: Sequence[Sequence[int]]) -> SizeCode:
    return SizeCode(text, tuple(row[place] for row in rows))


def find_size(name: str, values: Sequence[float], sizes: Sequence[SizeCode]) -> str:
    """Return the expression that equals a number in every call; empty where there is none.

    Args:
        name: The number's; one with ``stride`` in it is a stride first of all.
        values: In each call. Fractions, and 1 in every call, equal a size only by chance.
        sizes: As ``list_sizes`` returns them.
    """
    is_stride = "stride" in name.lower()
    is_whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    if not is_whole or (set(values) <= {0, 1} and not is_stride):
        return ""
    ordered = sorted(sizes, key=lambda size: (".stride(" in size.text) != is_stride)
    return next((size.text for size in ordered if size.values == tuple(values)), "")


def draft_launch(calls: Sequence[Call], names: Sequence[str], made: Sequence[int]) -> list[str]:
    """Return the lines that set ``grid`` and ``options`` as the program did.

    Args:
        calls: With their launches.
        names: Of the tensors, in their order.
        made: Those that are no inputs; the first input's shape chooses the launch where no
            expression fits.
    """
    place = next(at for at in range(len(names)) if at not in made)
    key = names[place]
    rows = [
        {**call["launch"]["constants"], **_write_options(call["launch"]["options"])}
        for call in calls
    ]
    sizes = list_sizes(calls, names, made)
    numbers = [size for size in sizes if _is_passed(size, calls)]
    last = f"{key}.shape[{len(calls[0]['tensors'][place]['shape']) - 1}]"
    powers = _find_powers(rows, numbers or [size for size in sizes if size.text == last])
    grids = [call["launch"]["grid"] for call in calls]
    blocks = _list_blocks(rows)
    codes = (
        [_find_grid_size(tuple(grid), blocks, numbers, sizes) for grid in zip(*grids, strict=True)]
        if len({len(grid) for grid in grids}) == 1
        else [""]
    )
    shapes = [tuple(call["tensors"][place]["shape"]) for call in calls]
    lines = _choose_by_shape("options", [_write_dict(row) for row in rows], shapes, key)
    lines += [f"    options[{name!r}] = {code}" for name, code in powers.items()]
    if all(codes):
        return [*lines, f"    grid = ({', '.join(codes)},)"]
    return [*lines, *_choose_by_shape("grid", [repr(tuple(grid)) for grid in grids], shapes, key)]


def _write_options(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: repr(value) for name, value in options.items() if value is not None}


def _write_dict(row: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name!r}: {code}" for name, code in row.items()) + "}"


def _choose_by_shape(
    name: str, codes: Sequence[str], shapes: Sequence[tuple[int, ...]], key: str
) -> list[str]:
    if len(set(codes)) == 1:
        return [f"    {name} = {codes[0]}"]
    rows = ", ".join(f"{shape!r}: {code}" for shape, code in zip(shapes, codes, strict=True))
    return [f"    {name} = {{{rows}}}.get(tuple({key}.shape), {codes[0]})"]


def _is_passed(size: SizeCode, calls: Sequence[Call]) -> bool:
    """Whether the kernel is given this size as a number."""
    columns = zip(*([n["value"] for n in call["numbers"]] for call in calls), strict=True)
    return size.values in set(columns) and set(size.values) != {1}


def _list_blocks(rows: Sequence[Mapping[str, str]]) -> list[SizeCode]:
    """Return the constants that are whole numbers above 1 in every call."""
    found = []
    for name in rows[0]:
        values = [_read_integer(row.get(name, "")) for row in rows]
        if all(value > 1 for value in values):
            found.append(SizeCode(f"options[{name!r}]", tuple(values)))
    return found


def _read_integer(code: str) -> int:
    """Return a constant's value; 0 where it is no whole number."""
    try:
        value = ast.literal_eval(code)
    except (ValueError, SyntaxError):
        return 0
    return value if isinstance(value, int) else 0


def _find_powers(rows: Sequence[Mapping[str, str]], sizes: Sequence[SizeCode]) -> dict[str, str]:
    """Return the constants that are the next power of two of a size, as expressions."""
    found = {}
    for block in _list_blocks(rows):
        for size in sizes:
            if block.values == tuple(1 << (value - 1).bit_length() for value in size.values):
                name = ast.literal_eval(block.text.removeprefix("options[").removesuffix("]"))
                found[name] = f"1 << ({size.text} - 1).bit_length()"
                break
    return found


def _find_grid_size(
    values: tuple[int, ...],
    blocks: Sequence[SizeCode],
    numbers: Sequence[SizeCode],
    sizes: Sequence[SizeCode],
) -> str:
    """Return the expression of one dimension of the grid; empty where none fits every call."""
    plain = [size for size in (*numbers, *sizes) if ".stride(" not in size.text]
    if set(values) == {1}:
        tiles = _list_tiles(numbers, blocks)
        return next((tile.text for tile in tiles if tile.values == values), "1")
    tiles = [*plain, *_list_tiles(plain, blocks)]
    pairs = (
        SizeCode(f"{one.text} * {other.text}", _multiply(one, other))
        for one, other in product(tiles[:_MAX_TILES], repeat=2)
    )
    for candidate in (*tiles, *pairs):
        if candidate.values == values:
            return candidate.text
    return str(values[0]) if len(set(values)) == 1 else ""


_MAX_TILES = 200


def _multiply(one: SizeCode, other: SizeCode) -> tuple[int, ...]:
    return tuple(a * b for a, b in zip(one.values, other.values, strict=True))


def _list_tiles(sizes: Sequence[SizeCode], blocks: Sequence[SizeCode]) -> list[SizeCode]:
    return list(_iter_tiles(sizes, blocks))


def _iter_tiles(sizes: Sequence[SizeCode], blocks: Sequence[SizeCode]) -> Iterator[SizeCode]:
    for size, block in product(sizes, blocks):
        rows = zip(size.values, block.values, strict=True)
        counts = tuple(-(-size_ // block_) for size_, block_ in rows)
        yield SizeCode(f"-(-({size.text}) // {block.text})", counts)
