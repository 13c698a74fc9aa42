"""Axes, workloads and launches from observed calls: equal sizes in every call are one axis."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kernelkb.scaffold.draft import assign_field_names

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
