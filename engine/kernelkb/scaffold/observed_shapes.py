"""Axes, workloads and launches from observed calls: equal sizes in every call are one axis."""

from __future__ import annotations

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from kernelkb.scaffold.draft import Function, Parameter, assign_field_names, to_field_name

Call = Mapping[str, Any]
"""One distinct call, as the observer in the user's program writes it."""
Size = str | int
"""An axis, or elements."""
_BAKED_NAMES = ("dim", "axis", "dims", "keepdim", "_stacklevel", "dim0", "dim1", "start_dim")
"""Numbers that say which dimension is meant: part of what is computed, and no argument."""
MAX_WORKLOADS = 6


class NumberPlan(NamedTuple):
    """One number among the arguments."""

    name: str
    value: Size | float
    """A number, or the axis that it follows."""
    is_baked: bool
    """Whether it is written into the call, and no input of the kernel."""
    code: str = ""
    """Of a launch: the expression of the tensors' sizes that it equals; empty where there is
    none."""


class ArrayPlan(NamedTuple):
    """One tensor, over all workloads."""

    name: str
    shape: tuple[Size, ...]
    dtype: str
    recipe: Mapping[str, Any]
    """Of the most frequent call."""
    is_contiguous: bool


class ObservedPlan(NamedTuple):
    """What a kernel.yaml says about calls of one kind."""

    target: str
    axes: tuple[str, ...]
    workloads: dict[str, dict[str, int]]
    """Most frequent first."""
    calls: tuple[Call, ...]
    """One for each workload, in their order."""
    tensors: tuple[ArrayPlan, ...]
    """All that are passed, in the order of the calls."""
    numbers: tuple[NumberPlan, ...]
    outputs: tuple[ArrayPlan, ...]
    changed: tuple[int, ...]
    """Tensors that are changed in place; the last outputs hold them afterwards."""
    made: tuple[int, ...]
    """Those of ``changed`` that are written only, and therefore no inputs."""
    warnings: tuple[str, ...]

    @property
    def inputs(self) -> tuple[ArrayPlan, ...]:
        """The tensors whose values count."""
        return tuple(self.tensors[at] for at in self.input_places)

    @property
    def input_places(self) -> tuple[int, ...]:
        """Where the inputs stand among the tensors."""
        return tuple(at for at in range(len(self.tensors)) if at not in self.made)


def plan_calls(calls: Sequence[Call], *, makes_changed: bool = False) -> ObservedPlan:
    """Return axes, workloads and arrays for the most frequent kind of call.

    Calls are of one kind if they differ in sizes only. Others are left out, and a warning says so.

    Args:
        calls: At least one, each with an output.
        makes_changed: Take tensors that are changed for ones that are written only.
    """
    chosen, warnings = _choose_kind(calls)
    chosen, more = _fix_numbers(chosen)
    chosen = _merge_equal_sizes(chosen)
    if (left_out := len(chosen) - MAX_WORKLOADS) > 0:
        text = f"{left_out} rarer shapes are left out; the {MAX_WORKLOADS} most frequent ones are"
        more.append(f"{text} workloads")
        chosen = chosen[:MAX_WORKLOADS]
    axes = _Axes(len(chosen))
    first = chosen[0]
    made = tuple(first["changed"]) if makes_changed else ()
    names = _name_arrays(first, made)
    tensors = _plan_tensors(chosen, names, axes, made)
    numbers = _plan_numbers(chosen, names, axes, tensors, made)
    axes.is_output = True
    places = range(len(first["outputs"]))
    outputs = tuple(_plan_array(chosen, f"outputs.{at}", names, axes) for at in places)
    workloads = {f"observed-{at + 1}": axes.sizes_of(at) for at in range(len(chosen))}
    target = "cuda" if any(t["device"] == "cuda" for t in first["tensors"]) else "cpu"
    warnings += more + _list_layout_warnings(t for at, t in enumerate(tensors) if at not in made)
    return ObservedPlan(
        target,
        tuple(axes.names.values()),
        workloads,
        tuple(chosen),
        tensors,
        numbers,
        outputs,
        tuple(first["changed"]),
        made,
        tuple(warnings),
    )


class _Axes:
    """Axes by the sizes that they have in each call; those of numbers by their place before."""

    def __init__(self, call_count: int) -> None:
        self._count = call_count
        self.names: dict[tuple[int, ...], str] = {}
        self.is_output = False

    def find(self, sizes: tuple[int, ...]) -> Size:
        """Return the axis of these sizes; a number where all are 1, or only outputs have it."""
        if sizes in self.names:
            return self.names[sizes]
        is_constant = len(set(sizes)) == 1
        if is_constant and (sizes[0] <= 1 or self.is_output):
            return sizes[0]
        self.names[sizes] = f"d{len(self.names)}"
        return self.names[sizes]

    def sizes_of(self, at: int) -> dict[str, int]:
        """Return the size of each axis in one call; keys end with one for each call."""
        return {name: sizes[at - self._count] for sizes, name in self.names.items()}


def _choose_kind(calls: Sequence[Call]) -> tuple[list[Call], list[str]]:
    counts: Counter[str] = Counter()
    for call in calls:
        counts[_describe_kind(call)] += call["count"]
    kind, count = counts.most_common(1)[0]
    chosen = [call for call in calls if _describe_kind(call) == kind]
    others = counts.total() - count
    warnings = []
    if others:
        warnings.append(
            f"{others} calls with other dtypes, dimensions or options are left out; the {count} "
            "calls of the most frequent kind were recorded"
        )
    return sorted(chosen, key=lambda call: -int(call["count"])), warnings


def _describe_kind(call: Call) -> str:
    arrays = [
        [(t["dtype"], len(t["shape"]), t["device"]) for t in call[field]]
        for field in ("tensors", "outputs")
    ]
    kinds = [(n["name"], type(n["value"]).__name__) for n in call["numbers"]]
    return json.dumps([arrays, kinds, call["arguments"], call["changed"]], default=str)


def _fix_numbers(calls: Sequence[Call]) -> tuple[list[Call], list[str]]:
    """Leave out calls whose fractions differ from the first call's: no workload can say that."""
    fixed = [n["value"] for n in calls[0]["numbers"] if isinstance(n["value"], float)]
    kept = [
        call
        for call in calls
        if [n["value"] for n in call["numbers"] if isinstance(n["value"], float)] == fixed
    ]
    left_out = sum(call["count"] for call in calls) - sum(call["count"] for call in kept)
    text = f"{left_out} calls with other numbers than the most frequent ones are left out"
    return kept, [text] if left_out else []


def _merge_equal_sizes(calls: Sequence[Call]) -> list[Call]:
    """Return one call for each set of sizes, with the count of all: strides may differ."""
    merged: dict[str, dict[str, Any]] = {}
    for call in calls:
        shapes = [[t["shape"] for t in call[field]] for field in ("tensors", "outputs")]
        key = json.dumps([shapes, call["numbers"]])
        if key in merged:
            merged[key]["count"] += call["count"]
        else:
            merged[key] = dict(call)
    return sorted(merged.values(), key=lambda call: -int(call["count"]))


def _name_arrays(call: Call, made: Sequence[int]) -> dict[str, str]:
    """Return a distinct field name for each array and number, by ``kind.index``.

    An output that is a tensor among the arguments, and no input, has that tensor's name.
    """
    rows = [
        (f"{field}.{at}", row["name"])
        for field in ("tensors", "numbers", "outputs")
        for at, row in enumerate(call[field])
    ]
    first = len(call["outputs"]) - len(made)
    same = {f"outputs.{first + n}": f"tensors.{at}" for n, at in enumerate(made)}
    taken: list[str] = []
    names: dict[str, str] = {}
    for key, name in rows:
        if key in same:
            names[key] = names[same[key]]
            continue
        field = next(iter(assign_field_names([name]).values()))
        while field in taken:
            field += "_"
        taken.append(field)
        names[key] = field
    return names


def _plan_tensors(
    calls: Sequence[Call], names: Mapping[str, str], axes: _Axes, made: Sequence[int]
) -> tuple[ArrayPlan, ...]:
    """Plan the inputs, and then what is written only: its sizes follow from theirs."""
    count = len(calls[0]["tensors"])
    planned = {}
    for at in sorted(range(count), key=lambda at: at in made):
        axes.is_output = at in made
        planned[at] = _plan_array(calls, f"tensors.{at}", names, axes)
    axes.is_output = False
    return tuple(planned[at] for at in range(count))


def _plan_array(
    calls: Sequence[Call], key: str, names: Mapping[str, str], axes: _Axes
) -> ArrayPlan:
    field, _, place = key.partition(".")
    arrays = [call[field][int(place)] for call in calls]
    columns = zip(*(array["shape"] for array in arrays), strict=True)
    shape = tuple(axes.find(tuple(column)) for column in columns)
    is_contiguous = all(map(_is_contiguous, arrays))
    return ArrayPlan(names[key], shape, arrays[0]["dtype"], arrays[0]["recipe"], is_contiguous)


def _is_contiguous(array: Mapping[str, Any]) -> bool:
    expected = 1
    for size, stride in zip(reversed(array["shape"]), reversed(array["strides"]), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _plan_numbers(
    calls: Sequence[Call],
    names: Mapping[str, str],
    axes: _Axes,
    tensors: Sequence[ArrayPlan],
    made: Sequence[int],
) -> tuple[NumberPlan, ...]:
    arrays = [array.name for array in tensors]
    sizes = list_sizes(calls, arrays, made) if calls[0]["launch"] else ()
    planned = []
    for at, number in enumerate(calls[0]["numbers"]):
        values = tuple(call["numbers"][at]["value"] for call in calls)
        name, value = names[f"numbers.{at}"], number["value"]
        is_fixed = len(set(values)) == 1
        is_baked = is_fixed and (number["name"] in _BAKED_NAMES or value < 0)
        code = find_size(number["name"], values, sizes)
        if not is_fixed and not code:  # an axis of its own: one that is a value is no array's size
            axes.names[(at, *values)] = value = name
        planned.append(NumberPlan(name, value, is_baked or bool(code), code))
    return tuple(planned)


def _list_layout_warnings(arrays: Iterable[ArrayPlan]) -> list[str]:
    names = ", ".join(array.name for array in arrays if not array.is_contiguous)
    if not names:
        return []
    return [
        f"{names}: the program passes strided views; variants are given the same values contiguous"
    ]


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


def draft_launch(plan: ObservedPlan) -> list[str]:
    """Return the lines that set ``grid`` and ``options`` as the program did for these sizes."""
    grids = [tuple(call["launch"]["grid"]) for call in plan.calls]
    options = [
        _write_dict({**call["launch"]["constants"], **_write_options(call["launch"]["options"])})
        for call in plan.calls
    ]
    rows = [f"({grid!r}, {option})" for grid, option in zip(grids, options, strict=True)]
    if len(set(rows)) == 1:
        return [f"    grid, options = {grids[0]!r}, {options[0]}"]
    numbers = [(at, each) for at, each in enumerate(plan.numbers) if each.value in plan.axes]
    keys = [
        (
            *(tuple(call["tensors"][at]["shape"]) for at in plan.input_places),
            *(call["numbers"][at]["value"] for at, _ in numbers),
        )
        for call in plan.calls
    ]
    names = [f"tuple({array.name}.shape)" for array in plan.inputs]
    names += [number.name for _, number in numbers]
    return [
        "    launches = {  # as observed; other sizes need their own",
        *(f"        {key!r}: {row}," for key, row in zip(keys, rows, strict=True)),
        "    }",
        f"    grid, options = launches[{', '.join(names)},]",
    ]


def _write_options(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: repr(value) for name, value in options.items() if value is not None}


def _write_dict(row: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name!r}: {code}" for name, code in row.items()) + "}"


class LaunchArgument(NamedTuple):
    """One argument of a launch."""

    value: bytes
    """As it was passed; zeros in place of pointers."""
    memory: Mapping[int, tuple[int, int]]
    """Of each pointer, by its place in the value: bytes to the end of its allocation, and from the
    start of it."""


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
    count: int


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
    same = [each for each in launches if each.name == first.name]
    if asks_launch:
        shape = (first.grid, first.block, first.shared_bytes)
        same = [each for each in same if (each.grid, each.block, each.shared_bytes) == shape]
    rows = [_split_arguments(kernel, fields, each) for each in same]
    if not rows[0]:
        text = (
            "the driver does not tell sizes of arguments (CUDA 12.4 does): only the launch is said"
        )
        return SeenAnswers(_answer_launch(kernel, first) if asks_launch else {}, (text,))
    own = {p.name: p for p in function.parameters}
    seen = {}
    for name in rows[0]:
        outer = own.get(passed.get(name, name if function.is_kernel else ""))
        if outer is not None:
            is_whole = all(_is_whole(each, kernel, name) for each in same)
            seen[outer.name] = _Seen(outer, tuple(row[name] for row in rows), is_whole)
    answers = _answer_sizes(seen)
    axes = [name for name, value in answers.items() if value == "axis"]
    if axes:
        sizes = [
            ", ".join(f"{to_field_name(a)}: {int(seen[a].numbers[at])}" for a in axes)
            for at in range(min(len(same), MAX_WORKLOADS))
        ]
        answers["workloads"] = " | ".join(dict.fromkeys(sizes))
    if function.is_kernel:
        answers |= _answer_launch(kernel, first)
    count = sum(each.count for each in launches) - sum(each.count for each in same)
    left = f"{count} launches with other types, grids or blocks are left out"
    return SeenAnswers(answers, (left,) if count else ())


_POOL_BYTES = 2**21
"""What pools take from the driver is a multiple of it."""


def _is_whole(launch: SeenLaunch, kernel: Function, name: str) -> bool:
    """Whether a pointer argument has an allocation of its own; not known of one in a structure."""
    at = [p.name for p in kernel.parameters].index(name)
    if len(launch.arguments) != len(kernel.parameters) or 0 not in launch.arguments[at].memory:
        return False
    left, offset = launch.arguments[at].memory[0]
    return offset == 0 and left % _POOL_BYTES != 0


def _answer_launch(kernel: Function, launch: SeenLaunch) -> dict[str, str]:
    """Return grid, block, shared memory and the arguments of the template."""
    answers = {"grid": f"dim3{launch.grid}", "block": f"dim3{launch.block}"}
    answers["shared"] = str(launch.shared_bytes)
    match = re.search(rf"\b{re.escape(kernel.name)}<(.*)>\(", launch.name)
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
) -> dict[str, float]:
    """Return the value of each number, and the elements behind each pointer, by name.

    Empty where the arguments are not those of the text.
    """
    found: dict[str, float] = {}
    arguments = iter(launch.arguments)
    argument, owner, place, unread = None, "", 0, ""
    for each in kernel.parameters:
        is_pointer = each.role in ("input", "output") or each.type.endswith("*")
        size = 8 if is_pointer else _SIZES.get(each.dtype or _NUMBERS.get(each.type, ""), 0)
        if fields.get(each.name, "") != owner or not owner:
            argument, owner, place = next(arguments, None), fields.get(each.name, ""), 0
        place += -place % size if size else 0
        unread = owner if not size else unread  # what follows it in a structure is not placed
        if (
            argument is None
            or place + size > len(argument.value)
            or not size
            or unread == owner != ""
        ):
            continue
        kind = each.dtype if is_pointer else _NUMBERS.get(each.type, "")
        if not is_pointer:
            found[each.name] = struct.unpack_from(_CODES[kind or ""], argument.value, place)[0]
        elif place in argument.memory and kind in _SIZES:
            found[each.name] = argument.memory[place][0] // _SIZES[kind]
        place += size
    return found if next(arguments, None) is None else {}


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
_NUMBERS = {
    **dict.fromkeys(("int", "int32_t", "unsigned", "unsigned int", "uint32_t", "uint"), "int32"),
    **dict.fromkeys(
        ("long", "long long", "int64_t", "size_t", "uint64_t", "unsigned long"), "int64"
    ),
    "float": "float32",
    "double": "float64",
    "bool": "bool",
    "half": "float16",
    "__half": "float16",
    "char": "int8",
    "short": "int16",
}
"""The types of numbers whose bytes are read."""


def _answer_sizes(seen: Mapping[str, _Seen]) -> dict[str, str]:
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
    for name, each in seen.items():
        if name not in numbers and not each.parameter.shape:
            shape = _find_shape(each, sizes)
            answers |= {name: f"[{', '.join(shape)}]"} if shape else {}
    dims = {d for name in seen for d in seen[name].parameter.shape}
    dims |= {d for text in answers.values() for d in re.findall(r"\w+", text)}
    for name, each in numbers.items():
        if name in dims or len(set(each.numbers)) > 1:
            answers[name] = "axis"
        elif each.parameter.role == "size" or each.parameter.value in ("", "FILL_IN"):
            kind = each.parameter.type
            answers[name] = _write_number(each.numbers[0], kind)
    return answers


def _find_shape(array: _Seen, sizes: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Return the shape that fills the memory of an array in each launch; empty for several."""
    guess = tuple(re.findall(r"\w+", array.parameter.guess))
    found = []
    rest = {name for count in (1, 2, 3) for name in combinations(sizes, count)}
    for dims in (guess, *sorted(rest, key=lambda names: (len(names), names))):
        values = [
            sizes.get(d, (int(d),) * len(array.numbers) if d.isdecimal() else ()) for d in dims
        ]
        if dims and all(values):
            products = tuple(map(math.prod, zip(*values, strict=True)))
            if products == array.numbers:
                found.append(dims)
                if dims == guess:
                    return dims
    if len(found) == 1:
        return found[0]
    is_fixed = not found and len(set(array.numbers)) == 1 and array.is_whole
    return (str(int(array.numbers[0])),) if is_fixed else ()


def _write_number(value: float, kind: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(float(f"{value:.9g}")) if isinstance(value, float) else str(value)
    return f"{text}f" if kind == "float" else text
