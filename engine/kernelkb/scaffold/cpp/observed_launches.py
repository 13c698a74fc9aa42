"""What the launches of a program in C++ say of a draft: sizes, shapes, values and the launch."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, permutations
from typing import NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.scaffold.answers import DOUBT
from kernelkb.scaffold.cpp.element_types import DTYPES
from kernelkb.scaffold.draft import Function, Parameter
from kernelkb.scaffold.extents import (
    count_elements,
    find_blocks,
    find_extents,
    list_axes,
    sort_by_ends,
    split_shape,
    write_shape,
)
from kernelkb.scaffold.integer_fills import choose_fill, describe_lost, read_integers
from kernelkb.scaffold.seen_numbers import VARIES, answer_workloads, fix_numbers, write_number

_MAX_SHAPES = 6
_UNTOLD = "the driver does not tell sizes of arguments (CUDA 12.4 does): only the launch is said"


class LaunchArgument(NamedTuple):
    """One argument of a launch."""

    value: bytes
    """As it was passed; zeros in place of pointers."""
    memory: Mapping[int, tuple[int, int]]
    """Of each pointer, by its place in the value: bytes to the end of its allocation, and from the
    start of it."""
    contents: Mapping[int, bytes] = {}
    """What each pointer points to before the launch, at most 4 MiB; of the first launches only."""
    written: Mapping[int, Sequence[int]] = {}
    """Of each pointer whose contents were read: the bytes up to the last one that changed, and how
    many elements of 1, 2, 4 and 8 bytes did not."""


class SeenLaunch(NamedTuple):
    """All launches of a kernel with the same grid, arguments and sizes of memory."""

    name: str
    """With its types, as ``void twice<float>(float const*, float*, int)``."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    """Of dynamic shared memory."""
    arguments: tuple[LaunchArgument, ...]
    """Empty where the driver does not tell the sizes of arguments: before CUDA 12.4."""
    calls: int
    others: int = 0
    """Of the first one of a program: launches after the last different one that is kept."""


class SeenAnswers(NamedTuple):
    """What launches say of a draft."""

    answers: Mapping[str, str]
    """As ``--set`` would say them."""
    warnings: tuple[str, ...]


class _Seen(NamedTuple):
    """One array or number in each launch."""

    parameter: Parameter
    numbers: tuple[float, ...]
    """Its values; of an array the elements behind its pointer."""
    is_whole: bool = False
    """Of an array: whether its memory is an allocation of its own, and no part of a pool."""
    contents: tuple[bytes, ...] = ()
    """Of an array: what each launch finds in it, at most 4 MiB; empty where it was not read."""
    before: int = 0
    """Of an array whose pointer is inside of an allocation of its own: the elements before it."""
    written: tuple[float | None, ...] = ()
    """Of an array: the elements up to the last one that each launch changed, where it is known."""
    unchanged: int = 0
    """Of an array: the fewest elements that a launch left as they were, where that is known."""

    def take(self, kept: Sequence[int]) -> _Seen:
        """Return what some of the launches tell."""
        numbers = tuple(self.numbers[at] for at in kept)
        contents = tuple(self.contents[at] for at in kept if at < len(self.contents))
        written = tuple(self.written[at] for at in kept if at < len(self.written))
        return self._replace(numbers=numbers, contents=contents, written=written)


class _LaunchValues(NamedTuple):
    """The arguments of a launch, by the names of the kernel's parameters."""

    numbers: Mapping[str, float]
    """The value of each number, and the elements behind each pointer."""
    contents: Mapping[str, bytes]
    written: Mapping[str, float]
    """The elements up to the last one that the launch changed, of the arrays where it is known."""
    unchanged: Mapping[str, int]
    """How many elements of an array the launch left as they were, where it changed any."""


def answer_by_launches(
    function: Function,
    kernel: Function,
    fields: Mapping[str, str],
    passed: Mapping[str, str],
    launches: Sequence[SeenLaunch],
    *,
    asks_launch: bool,
) -> SeenAnswers:
    """Return shapes, numbers, template arguments, launch and workloads as a program used them.

    Args:
        function: What is drafted: the kernel, or what launches it.
        kernel: With the fields of structures as its parameters.
        fields: The structure that each such field belongs to.
        passed: What the function passes for each parameter of the kernel, where that is a name.
        launches: The most frequent first.
        asks_launch: Whether the text does not show the grid: then one grid is for all workloads.
    """
    first = launches[0]
    same = _list_same(launches, asks_launch=asks_launch)
    rows = [_split_arguments(kernel, fields, each) for each in same]
    if not rows[0].numbers:
        untold = () if first.arguments else (_UNTOLD,)
        return SeenAnswers(_answer_launch(kernel, [first], {}) if asks_launch else {}, untold)
    same, rows = _leave_null_out(same, rows)
    seen = _collect_seen(function, kernel, passed, same, rows)
    answers = _answer_sizes(seen, (math.prod(first.block), math.prod(first.grid)))
    kinds = {name: each.parameter.type for name, each in seen.items()}
    fixed = fix_numbers(_list_numbers(seen), kinds, answers, [each.calls for each in same])
    answers |= fixed.answers
    seen = {name: each.take(fixed.kept) for name, each in seen.items()}
    kept = [same[at] for at in fixed.kept]
    values, notes = _answer_values(seen, answers)
    workloads, left = answer_workloads(answers, _list_numbers(seen), [e.calls for e in kept])
    answers |= values | workloads
    sizes = {name: seen[name].numbers for name, value in answers.items() if value == "axis"}
    answers |= _answer_launch(kernel, kept, sizes) if function.is_kernel else {}
    warnings = [*_list_warnings(seen, answers, launches, same), *fixed.warnings, *left, *notes]
    return SeenAnswers(answers, (*warnings, *_list_object_warnings(kernel, fields, kept[0])))


def _leave_null_out(
    launches: Sequence[SeenLaunch], rows: Sequence[_LaunchValues]
) -> tuple[list[SeenLaunch], list[_LaunchValues]]:
    """Return the launches, and their values, that pass null for no array that others pass."""
    most = max(len(row.numbers) for row in rows)
    same = [each for each, row in zip(launches, rows, strict=True) if len(row.numbers) == most]
    return same, [row for row in rows if len(row.numbers) == most]


def _list_numbers(seen: Mapping[str, _Seen]) -> dict[str, tuple[float, ...]]:
    return {name: each.numbers for name, each in seen.items()}


def _list_same(launches: Sequence[SeenLaunch], *, asks_launch: bool) -> list[SeenLaunch]:
    """Return the launches that have the types of the first one, and its grid where that counts."""
    first = launches[0]
    shape = (first.grid, first.block, first.shared_bytes)
    return [
        each
        for each in launches
        if each.name == first.name
        and (not asks_launch or (each.grid, each.block, each.shared_bytes) == shape)
    ]


def _collect_seen(
    function: Function,
    kernel: Function,
    passed: Mapping[str, str],
    launches: Sequence[SeenLaunch],
    rows: Sequence[_LaunchValues],
) -> dict[str, _Seen]:
    """Map each parameter of the function to what the launches of the kernel tell of it."""
    own = {p.name: p for p in function.parameters}
    seen = {}
    for name in rows[0].numbers:
        outer = own.get(passed.get(name, name if function.is_kernel else ""))
        if outer is not None and all(name in row.numbers for row in rows):
            offsets = [_find_offset(each, kernel, name) for each in launches]
            is_whole = not any(offsets) and None not in offsets
            contents = tuple(row.contents.get(name, b"") for row in rows)
            numbers = tuple(row.numbers[name] for row in rows)
            size = _SIZES.get(outer.dtype or "", 1)
            before = max(offset or 0 for offset in offsets) // size
            written = tuple(row.written.get(name) for row in rows)
            unchanged = min(
                (row.unchanged[name] for row in rows if name in row.unchanged), default=0
            )
            seen[outer.name] = _Seen(outer, numbers, is_whole, contents, before, written, unchanged)
    return seen


def _list_warnings(
    seen: Mapping[str, _Seen],
    answers: Mapping[str, str],
    launches: Sequence[SeenLaunch],
    same: Sequence[SeenLaunch],
) -> list[str]:
    """Return which launches are left out, and where memory and the shape of an array part."""
    count = sum(each.calls for each in launches)
    left = count - sum(each.calls for each in same)
    text = "launches, with other types, grids or blocks, or null pointers, are left out"
    warnings = [f"{left} of {count} {text}"] if left else []
    if others := sum(each.others for each in launches):
        text = f"after the first {len(launches)} different ones, are not looked at"
        warnings.insert(0, f"{others} of {count + others} launches, {text}")
    sizes = {name: each.numbers for name, each in seen.items()}
    for name, each in seen.items():
        if each.parameter.role not in ("input", "output"):
            continue
        has = int(max(each.numbers))
        if _lacks_room(each, sizes):
            shape = write_shape(each.parameter.shape)
            warnings.append(f"{name}: {shape} is read from the text, but it has {has} elements")
            warnings[-1] += " in the run"
        if each.before:
            warnings.append(
                f"{name}: the program passes a pointer {each.before} elements into memory of "
                f"{has + each.before}; an array here begins at its pointer, so that a kernel that "
                "reads before it reads out of bounds"
            )
        warnings += _list_output_warnings(name, each, answers.get(name, ""))
    return warnings


def _list_output_warnings(name: str, each: _Seen, said: str) -> list[str]:
    """Return what launches do not write of an output whose shape is taken as said."""
    has = int(max(each.numbers))
    if not _is_only_written(each) or said.startswith(DOUBT):
        return []
    if each.unchanged > _FEW * min(each.numbers):
        return [
            f"{name}: {each.unchanged} of its {has} elements are after a launch as before; where "
            f"the kernel leaves them, say so with --set {name}.role=both, or with fewer elements, "
            f"--set '{name}=[...]'"
        ]
    if not said or set(each.written) == {*each.numbers}:
        return []
    return [
        f"{name}: {said} is the memory behind it, {has} elements; where the kernel writes fewer, "
        f"say so with --set '{name}=[...]'"
    ]


def _list_object_warnings(
    kernel: Function, fields: Mapping[str, str], launch: SeenLaunch
) -> list[str]:
    """Return which objects that are passed by value, and not taken apart, hold pointers."""
    warnings = []
    if len(launch.arguments) != len(kernel.parameters) or fields:
        return []
    for each, argument in zip(kernel.parameters, launch.arguments, strict=True):
        is_pointer = each.role in ("input", "output") or each.type.endswith("*")
        if is_pointer or each.dtype or not argument.memory:
            continue
        lengths = " and ".join(str(left) for left, _ in argument.memory.values())
        count = len(argument.memory)
        pointers = f"{count} pointer{'s' * (count > 1)} to memory ({lengths} bytes)"
        warnings.append(
            f"{each.name}: an object passed by value, in the run with {pointers}: no array of "
            "kernel.yaml stands for them; allocate and fill them in launch.cu"
        )
    return warnings


_MIN_ROW = 16
"""Shorter rows may fill the memory of an array by chance."""
_FEW = 0.05
"""A part of an array that may be left as it was by chance: zeros over zeros."""
_POOL_BYTES = 2**21
"""What pools take from the driver is a multiple of it."""


def _find_offset(launch: SeenLaunch, kernel: Function, name: str) -> int | None:
    """Return the bytes before a pointer argument in its allocation; None: it is part of a pool.

    It is not known of a pointer in a structure either.
    """
    at = [p.name for p in kernel.parameters].index(name)
    if len(launch.arguments) != len(kernel.parameters) or 0 not in launch.arguments[at].memory:
        return None
    left, offset = launch.arguments[at].memory[0]
    return offset if (left + offset) % _POOL_BYTES else None


def _answer_launch(
    kernel: Function, launches: Sequence[SeenLaunch], sizes: Mapping[str, Sequence[float]]
) -> dict[str, str]:
    """Return grid, block, shared memory and the arguments of the template.

    The grid is that of the first launch, or a quotient of a size, where that is the grid of all.
    """
    first = launches[0]
    grid = [
        find_blocks([each.grid[at] for each in launches], sizes, first.block) for at in (0, 1, 2)
    ]
    is_one = len({(each.block, each.shared_bytes) for each in launches}) == 1
    shown = f"dim3({', '.join(grid)})" if all(grid) and is_one else f"dim3{first.grid}"
    answers = {"grid": shown, "block": f"dim3{first.block}", "shared": str(first.shared_bytes)}
    match = re.search(rf"\b{re.escape(kernel.name)}<(.*)>\(", first.name)
    if match:
        parts = re.findall(r"(?:[^,<>]|<[^<>]*>)+", match[1])
        named = zip(kernel.template, parts, strict=False)
        answers |= {name: _to_source(part.strip()) for name, part in named}
    return answers


def _to_source(text: str) -> str:
    """Return a template argument as source: ``(bool)1`` and ``4u`` as they are written there."""
    return {"(bool)1": "true", "(bool)0": "false"}.get(text, re.sub(r"^\(\w+\)", "", text))


def _split_arguments(
    kernel: Function, fields: Mapping[str, str], launch: SeenLaunch
) -> _LaunchValues:
    """Return the numbers and the arrays of a launch; none where they are not those of the text."""
    found: dict[str, float] = {}
    contents: dict[str, bytes] = {}
    written: dict[str, float] = {}
    unchanged: dict[str, int] = {}
    arguments = iter(launch.arguments)
    argument, owner, place, unread = None, "", 0, ""
    for each in kernel.parameters:
        is_pointer = each.role in ("input", "output") or each.type.endswith("*")
        kind = each.dtype if is_pointer else each.dtype or DTYPES.get(each.type, "")
        size = 8 if is_pointer else _SIZES.get(kind or "", 0)
        if fields.get(each.name, "") != owner or not owner:
            argument, owner, place = next(arguments, None), fields.get(each.name, ""), 0
        place += -place % size if size else 0
        unread = owner if not size else unread  # what follows it in a structure is not placed
        if argument is None or not size or place + size > len(argument.value):
            continue
        if unread == owner != "":
            continue
        if not is_pointer and kind in _CODES:
            found[each.name] = struct.unpack_from(_CODES[kind], argument.value, place)[0]
        elif is_pointer and place in argument.memory and kind in _SIZES:
            found[each.name] = argument.memory[place][0] // _SIZES[kind]
            contents[each.name] = argument.contents.get(place, b"")
            end, *same = argument.written.get(place, (0,))
            if 0 < end < len(contents[each.name]) or end == argument.memory[place][0]:
                written[each.name] = -(-end // _SIZES[kind])
            if end and same:
                unchanged[each.name] = same[_SIZES[kind].bit_length() - 1]
        place += size
    if next(arguments, None) is not None:
        return _LaunchValues({}, {}, {}, {})
    return _LaunchValues(found, contents, written, unchanged)


_CODES = {
    "float32": "<f",
    "float64": "<d",
    "bool": "<?",
    "int8": "<b",
    "uint8": "<B",
    "int16": "<h",
    "int32": "<i",
    "int64": "<q",
    "float16": "<e",
}
_SIZES = {dtype: struct.calcsize(code) for dtype, code in _CODES.items()} | {"bfloat16": 2}


def _answer_sizes(seen: Mapping[str, _Seen], counts: tuple[int, int]) -> dict[str, str]:
    """Return the shape of each array that it has room for exactly, and each number."""
    numbers = {
        name: each
        for name, each in seen.items()
        if each.parameter.role in ("size", "number") and not each.parameter.type.endswith("*")
    }
    sizes = {
        name: each.numbers
        for name, each in numbers.items()
        if all(isinstance(n, int) and n > 0 for n in each.numbers) and set(each.numbers) != {1}
    }
    answers: dict[str, str] = {}
    shapes = [p.shape or split_shape(p.guess) or ("", *p.inner) for p, *_ in seen.values()]
    for name, each in seen.items():
        is_doubted = _lacks_room(each, sizes)
        if name in numbers or (each.parameter.shape and not is_doubted):
            continue
        found = sort_by_ends(_find_shapes(each, sizes, counts), shapes)
        if len(found) > 1 and _lacks_names(each, found):
            found, is_doubted = [], True
        if _is_partly_written(each):
            found = [*dict.fromkeys((*_find_written(each, sizes, counts), *found))]
            is_doubted = True
        if is_doubted or len(found) > 1 or (each.before and not list_axes(found)):
            answers[name] = f"{DOUBT}{'|'.join(found)}"
        elif found:
            answers[name] = found[0]
    answers |= _guess_others(seen, answers, [*numbers])
    return answers | _answer_numbers(seen, numbers, answers, sizes)


def _guess_others(
    seen: Mapping[str, _Seen], answers: Mapping[str, str], numbers: Collection[str]
) -> dict[str, str]:
    """Return as guesses, of arrays without a shape, that of one as large, and their elements."""
    said = {name: split_shape(answers.get(name, "")) for name in seen if name not in numbers}
    known = {name: dims or seen[name].parameter.shape for name, dims in said.items()}
    guessed: dict[str, str] = {}
    for name in [n for n in known if not known[n] and n not in answers and not seen[n].before]:
        elements = seen[name].numbers
        like = [dims for n, dims in known.items() if dims and seen[n].numbers == elements]
        like += [(f"{elements[0]:.0f}",)] if len(set(elements)) == 1 else []
        shapes = "|".join(dict.fromkeys(map(write_shape, like)))
        guessed |= {name: f"{DOUBT}{shapes}"} if shapes else {}
    return guessed


def _answer_numbers(
    seen: Mapping[str, _Seen],
    numbers: Mapping[str, _Seen],
    answers: Mapping[str, str],
    sizes: Mapping[str, Sequence[float]],
) -> dict[str, str]:
    """Return for each number whether it is an axis, its value, or that it varies."""
    arrays = [name for name in seen if name not in numbers]
    said: dict[str, str] = {}
    dims = {d for name in seen for d in seen[name].parameter.shape}
    dims |= {d for text in answers.values() for d in list_axes([text])}
    is_open = any(  # a number may be a size of an array of which nothing is known
        answers.get(name, "") == DOUBT or not (answers.get(name) or seen[name].parameter.shape)
        for name in arrays
    )
    for name, each in numbers.items():
        is_varied = len(set(each.numbers)) > 1
        if name in dims or (is_varied and is_open and name in sizes):
            said[name] = "axis"
        elif is_varied:
            said[name] = VARIES
        elif each.parameter.role == "size" or each.parameter.value in ("", FILL_IN_MARK):
            kind = each.parameter.type
            said[name] = write_number(each.numbers[0], kind)
    return said


def _lacks_room(array: _Seen, sizes: Mapping[str, Sequence[float]]) -> bool:
    """Whether the shape of the text does not fill the memory of an array in some launch.

    Of memory that is part of a pool, or goes on for another array, only too little is told.
    """
    needed = count_elements(array.parameter.shape, sizes, len(array.numbers))
    if not needed:
        return False
    is_filled = array.is_whole and not (_is_only_written(array) and needed == array.written)
    rows = zip(needed, array.numbers, strict=True)
    return any(need > has or (is_filled and need != has) for need, has in rows)


def _is_only_written(array: _Seen) -> bool:
    return array.parameter.role == "output" and not array.parameter.is_read


def _is_partly_written(array: _Seen) -> bool:
    """Whether launches change no more than the first half of an output: less than its memory."""
    known = [(end, has) for end, has in zip(array.written, array.numbers, strict=True) if end]
    return _is_only_written(array) and bool(known) and all(2 * end <= has for end, has in known)


def _find_written(
    array: _Seen, sizes: Mapping[str, Sequence[float]], counts: tuple[int, int]
) -> list[str]:
    """Return the shapes that end where each launch ended to write."""
    ends = tuple(end for end in array.written if end)
    if len(ends) < len(array.numbers):
        return []
    return _find_shapes(array._replace(numbers=ends, is_whole=True), sizes, counts)


def _answer_values(
    seen: Mapping[str, _Seen], answers: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return how the values of integer arrays are drawn, and what is lost by that."""
    numbers = {name for name, each in seen.items() if each.parameter.role in ("size", "number")}
    sizes = {name: seen[name].numbers for name in numbers if answers.get(name) == "axis"}
    fills: dict[str, str] = {}
    notes: list[str] = []
    for name, each in seen.items():
        is_given = each.parameter.role == "input" or each.parameter.is_read
        said = answers.get(name, "")
        shape = () if said.startswith(DOUBT) else split_shape(said) or each.parameter.shape
        counts = count_elements(shape, {n: seen[n].numbers for n in numbers}, len(each.numbers))
        counts = counts or (each.numbers if each.is_whole else ())
        kind = each.parameter
        values = read_integers(kind.dtype or "", kind.type, counts, each.contents)
        if not values or not is_given:
            continue
        if stray := _find_stray(each, seen, values):
            notes.append(f"{name}: the run has {stray}: what of it the kernel reads is not seen")
            continue
        others = [one.numbers for other, one in seen.items() if other not in {name, *numbers}]
        fill, lost = choose_fill(
            [*values.values()],
            {axis: [own[at] for at in values] for axis, own in sizes.items()},
            [[own[at] for at in values] for own in others],
        )
        fills |= {f"{name}.fill": fill} if fill else {}
        notes += describe_lost(name, fill, lost, [*values.values()])
    return fills, notes


def _find_stray(each: _Seen, seen: Mapping[str, _Seen], values: Mapping[int, Sequence[int]]) -> str:
    """Return which values of an array of places are no places of the array that they index."""
    other, smallest = each.parameter.indexes
    if other not in seen:
        return ""
    low, high = min(map(min, values.values())), max(map(max, values.values()))
    room = int(max(seen[other].numbers))
    is_stray = low < smallest or high >= room
    return f"values from {low} to {high}, and {other} has {room} elements" if is_stray else ""


def _find_shapes(
    array: _Seen, sizes: Mapping[str, Sequence[float]], counts: tuple[int, int]
) -> list[str]:
    """Return the shapes that fill the memory of an array in each launch: one, or what it may be.

    How many elements there are does not say in which order the dimensions are: an index of the
    text does.
    """
    guess = split_shape(array.parameter.guess)
    found = []
    rest = {name for count in (1, 2, 3) for name in combinations(sizes, count)}
    for dims in (guess, *sorted(rest, key=lambda names: (len(names), names))):
        if count_elements(dims, sizes, len(array.numbers)) == array.numbers:
            found.append(dims)
            if dims == guess:
                return [write_shape(dims)]
    if not found:
        is_told = array.is_whole or array.before > 0
        rows = _find_rows(array, sizes, counts[1])
        return [rows] if rows else find_extents(array.numbers, sizes, counts, takes_number=is_told)
    fewest = [dims for dims in found if len(dims) == len(found[0])]
    orders = [order for dims in fewest for order in permutations(dims)]
    inner = array.parameter.inner
    orders = [dims for dims in orders if inner and dims[-len(inner) :] == inner] or orders
    return [write_shape(order) for order in orders[:_MAX_SHAPES]]


def _find_rows(array: _Seen, sizes: Mapping[str, Sequence[float]], blocks: int) -> str:
    """Return as a shape how many rows there are of the last sizes that an index of the text has.

    Only of memory of its own that so many rows fill in each launch, and that are not short; rows
    that are as many as the launch has blocks may be one for each.
    """
    inner = array.parameter.inner
    row = count_elements(inner, sizes, len(array.numbers)) if array.is_whole else ()
    counts = {divmod(has, one) for has, one in zip(array.numbers, row, strict=bool(row))}
    count, rest = next(iter(counts), (0.0, 1.0))
    is_told = len(counts) == 1 and not rest and count not in (0, blocks)
    return write_shape((f"{count:.0f}", *inner)) if is_told and min(row) >= _MIN_ROW else ""


def _lacks_names(array: _Seen, found: Sequence[str]) -> bool:
    """Whether shapes fill the memory by chance: each lacks sizes that the text has for an array."""
    named = {*list_axes(split_shape(array.parameter.guess))}
    return len(set(array.numbers)) == 1 and all(named - {*list_axes([text])} for text in found)
