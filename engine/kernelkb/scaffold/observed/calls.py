"""Axes, workloads, launches and kernel.yaml from observed calls: equal sizes are one axis."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Literal, NamedTuple

from kernelkb.loading.kernels import dump_kernel_yaml
from kernelkb.scaffold.draft import assign_field_names
from kernelkb.scaffold.observed.recipes import (
    Size,
    choose_near_fill,
    explain_loss,
    make_fill,
    write_values,
)

ENTRY = "observed_call"
Call = Mapping[str, Any]
"""One distinct call, as the observer in the user's program writes it."""
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
    chosen = _merge_equal_sizes(chosen)  # of shapes that are as frequent, the largest comes first
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
    options = [call["arguments"], call["changed"], call.get("autocast")]
    return json.dumps([arrays, kinds, *options], default=str)


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
    return sorted(merged.values(), key=lambda call: (-int(call["count"]), -_count_elements(call)))


def _count_elements(call: Call) -> int:
    return sum(math.prod(t["shape"]) for field in ("tensors", "outputs") for t in call[field])


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
    recipe = arrays[0]["recipe"]
    if recipe["kind"] == "arange":
        low = recipe["start"]
        recipe = {**recipe, "low": low, "high": low + arrays[0]["shape"][0] - 1}
    room = recipe["high"] - recipe["low"] + 1 if recipe["kind"] == "distinct" else math.inf
    if any(math.prod(array["shape"]) > room for array in arrays):
        recipe = {**recipe, "kind": "integers"}
    return ArrayPlan(names[key], shape, arrays[0]["dtype"], recipe, is_contiguous)


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
        found += [SizeCode(f"{name}.shape[{n}]", tuple(s[n] for s in shapes)) for n in rank]
        counts = tuple(math.prod(shape) for shape in shapes)
        found.append(SizeCode(f"{name}.numel()", counts))
        if len(rank) > 2 and all(shape[-1] for shape in shapes):
            rows = tuple(n // shape[-1] for n, shape in zip(counts, shapes, strict=True))
            found.append(SizeCode(f"{name}.numel() // {name}.shape[-1]", rows))
        found += [SizeCode(f"{name}.stride({n})", tuple(s[n] for s in strides)) for n in rank]
    return tuple(found)


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


_WIDTH = 100


def needs_input_function(plan: ObservedPlan) -> bool:
    """Return whether the values of an input follow no ``fill`` of a kernel.yaml."""
    return any(make_fill(array.recipe, array.dtype) is None for array in plan.inputs)


def draft_input_function(plan: ObservedPlan) -> str:
    """Return Python source of ``make_inputs``, which draws all inputs as they were observed."""
    values = {number.value for number in plan.numbers}
    sizes = [axis for axis in plan.axes if axis not in values]
    head = (
        f"def make_inputs({', '.join(sizes)}):",
        '    """Draw inputs distributed as the program\'s."""',
    )
    first = {axis: size for axis, size in plan.workloads["observed-1"].items() if axis in sizes}
    lines = [f"    {array.name} = {_draw(array, first)}" for array in plan.inputs]
    names = ", ".join(array.name for array in plan.inputs)
    return "\n".join([*head, *lines, f"    return [{names}]"]) + "\n"


def _draw(array: ArrayPlan, sizes: Mapping[str, int]) -> str:
    """Return an expression that draws an array, given the axes of the most frequent call."""
    recipe = array.recipe
    if recipe["kind"] == "offsets":
        recipe = {**recipe, "high": _find_end(recipe, sizes)}
    values = write_values(recipe, array.shape)
    return f"({values}).to(torch.{array.dtype})"


def _find_end(recipe: Mapping[str, Any], sizes: Mapping[str, int]) -> Size:
    """Return the size of what offsets point into, with which they end: an axis if it is one's."""
    same = [axis for axis, size in sizes.items() if size == recipe["high"]]
    return same[0] if len(same) == 1 else int(recipe["high"])


def list_lost_values(plan: ObservedPlan) -> list[str]:
    """Return what inputs have in the program that they lack where a ``fill`` draws them."""
    lost = {
        array.name: explain_loss(array.recipe, array.dtype)
        for array in plan.inputs
        if make_fill(array.recipe, array.dtype) is None
    }
    return [f"{name}: in the run its values {text}" for name, text in lost.items() if text]


def list_constant_inputs(plan: ObservedPlan) -> list[str]:
    """Return which inputs have one value in all of their elements, in each recorded call.

    Where the recorded calls are all that is checked, a kernel may ignore such an input.
    """
    found: dict[str, list[str]] = {}
    for at in plan.input_places:
        rows = [call["tensors"][at] for call in plan.calls]
        values = {_find_constant(row["recipe"]) for row in rows}
        if len(values) == 1 and values != {""} and any(math.prod(row["shape"]) > 1 for row in rows):
            found.setdefault(values.pop(), []).append(plan.tensors[at].name)
    return [
        f"{', '.join(names)}: all {value} in each recorded call, so that a kernel that leaves out "
        "a factor or reads other places passes; have the program draw other values "
        "(torch.randn_like), and record it again"
        for value, names in found.items()
    ]


def _find_constant(recipe: Mapping[str, Any]) -> str:
    """Return the one value that a recipe draws; empty where it draws several."""
    named = {"zeros": "0", "ones": "1", "constant": str(recipe.get("value"))}
    return named.get(recipe["kind"], "")


RECORDED_FILE = "recorded.safetensors"
VARIANT_FILE, OBSERVED_VARIANT = "observed.py", "observed"


class ObservedKernel(NamedTuple):
    """What a kernel.yaml is written from."""

    name: str
    operation: str
    """As it can be named: ``module:function``."""
    command: str
    """The program that was observed."""
    kernels: tuple[str, ...]
    """Triton kernels that it launches."""
    plan: ObservedPlan
    reference: Literal["code", "recorded", "variant"]
    """``code`` is reference.py; ``variant``: what the observed code writes is right."""


def draft_observed_yaml(kernel: ObservedKernel) -> str:
    """Return the text of a kernel.yaml whose workloads and inputs are those of real calls."""
    plan = kernel.plan
    fields = {
        "id": kernel.name,
        "title": f"{kernel.operation} as {kernel.command} calls it",
        "axes": list(plan.axes),
        "workloads": plan.workloads,
        "default_workload": {
            target: next(iter(plan.workloads)) for target in _list_targets(kernel)
        },
        "inputs": [
            *(_make_input(array, plan.workloads["observed-1"]) for array in plan.inputs),
            *(_make_number(number) for number in plan.numbers if not number.is_baked),
        ],
        "outputs": [_make_array(array) for array in plan.outputs],
        "reference": _make_reference(kernel),
        "entry": ENTRY,
        "variants": [_make_variant(kernel, target) for target in _list_targets(kernel)],
    }
    return _write_comments(kernel) + dump_kernel_yaml(fields)


def _list_targets(kernel: ObservedKernel) -> Sequence[str]:
    """Return where the observed code can run: interpreted Triton also runs on a GPU."""
    targets = [kernel.plan.target]
    return [*targets, "cuda"] if kernel.kernels and "cuda" not in targets else targets


def _make_variant(kernel: ObservedKernel, target: str) -> dict[str, Any]:
    is_triton = bool(kernel.kernels) and target == "cuda"
    return {
        "id": OBSERVED_VARIANT,
        "target": target,
        "language": "triton" if is_triton else "python",
        "source": VARIANT_FILE,
        "returns": True,
        **({"kernels": list(kernel.kernels)} if is_triton else {}),
        "summary": "the code that the program runs",
    }


def _write_comments(kernel: ObservedKernel) -> str:
    lines = [f"# Observed by kb init in: {kernel.command}", "# Calls of each workload:"]
    for name, call in zip(kernel.plan.workloads, kernel.plan.calls, strict=True):
        lines.append(f"#   {name}: {call['count']}{_describe_launch(call)}")
        lines += _describe_data(kernel.plan, call)
    if kernel.reference != "recorded" and any(call.get("data") for call in kernel.plan.calls):
        lines.append(
            "# What is drawn here is like it as far as a recipe tells: kb profile shows its data."
        )
    if kernel.reference == "variant":
        lines.append(
            "# Assumed: what observed.py computes as it stands is taken as right, unchecked."
        )
    lines += [
        "# cost is left out: what any correct kernel must read and write depends on the operation.",
        '# cost: {bytes: "...", flops: "..."}',
    ]
    return "\n".join(lines) + "\n"


def _describe_data(plan: ObservedPlan, call: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the values of the inputs were on which the speed may depend, as comments."""
    names = {row["name"]: own.name for row, own in zip(call["tensors"], plan.tensors, strict=True)}
    for row in call.get("data", ()):
        says = f"{names[row['name']]}{row['says'].removeprefix(row['name'])}"
        yield from wrap(says, _WIDTH, initial_indent="#     ", subsequent_indent="#       ")


def _describe_launch(call: Mapping[str, Any]) -> str:
    launch = call["launch"]
    if not launch:
        return ""
    options = "".join(
        f", {name}={value}"
        for name, value in {**launch["constants"], **launch["options"]}.items()
        if value is not None
    )
    return f", grid {tuple(launch['grid'])}{options}"


def _make_array(array: ArrayPlan) -> dict[str, Any]:
    return {"name": array.name, "shape": list(array.shape), "dtype": array.dtype}


def _make_input(array: ArrayPlan, sizes: Mapping[str, int]) -> dict[str, Any]:
    # Where the reference has a function for the inputs, or recorded ones, these are drawn from.
    drawn = make_fill(array.recipe, array.dtype) or choose_near_fill(array.recipe, array.dtype)
    if drawn["fill"] == "offsets":
        end = _find_end(array.recipe, sizes)
        drawn["scale"] = end if isinstance(end, str) else float(end)
    return {**_make_array(array), **drawn}


def _make_number(number: NumberPlan) -> dict[str, Any]:
    dtype = "float64" if isinstance(number.value, float) else "int64"
    return {"name": number.name, "dtype": dtype, "value": number.value}


def _make_reference(kernel: ObservedKernel) -> dict[str, Any]:
    if kernel.reference == "recorded":
        return {"recorded": RECORDED_FILE}
    if kernel.reference == "variant":
        return {"variant": OBSERVED_VARIANT}
    made: dict[str, Any] = {"file": "reference.py", "function": ENTRY}
    return {**made, "inputs": "make_inputs"} if needs_input_function(kernel.plan) else made
