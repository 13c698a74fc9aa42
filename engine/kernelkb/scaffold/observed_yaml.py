"""The kernel.yaml of an observed operation, and inputs like those that were observed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Literal, NamedTuple

from kernelkb.loading.kernels import dump_kernel_yaml
from kernelkb.scaffold.observed_callee import ENTRY
from kernelkb.scaffold.observed_shapes import ArrayPlan, NumberPlan, ObservedPlan, Size

Recipe = Mapping[str, Any]
_WIDTH = 100
_CENTRED_SHARE = 0.05
"""A mean that is smaller than this share of the standard deviation is zero."""


def make_fill(recipe: Recipe, dtype: str) -> dict[str, Any] | None:
    """Return the fields ``fill`` and ``scale`` that draw values like a recipe; None: none do."""
    kind = recipe["kind"]
    if kind in ("zeros", "ones"):
        return {"fill": kind}
    if kind == "normal" and _is_centred(recipe):
        return {"fill": "normal", **_make_scale(recipe["std"])}
    if kind == "uniform" and recipe["low"] == 0 and recipe["high"] > 0:
        return {"fill": "uniform", **_make_scale(recipe["high"])}
    if kind == "integers" and recipe["low"] == 0 and dtype != "bool":
        return {"fill": "integers", "scale": float(recipe["high"] + 1)}
    if kind == "flags" and recipe["share"] == 0.5:
        return {"fill": "integers", "scale": 2.0}
    return None


def _make_scale(scale: float) -> dict[str, float]:
    return {} if math.isclose(scale, 1.0, rel_tol=_CENTRED_SHARE) else {"scale": scale}


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
    if recipe["kind"] == "offsets":  # they end with the size of what they point into
        same = [axis for axis, size in sizes.items() if size == recipe["high"]]
        recipe = {**recipe, "high": same[0] if len(same) == 1 else recipe["high"]}
    values = _write_values(recipe, array.shape)
    return f"({values}).to(torch.{array.dtype})"


def _write_values(recipe: Recipe, sizes: Sequence[Size]) -> str:
    shape = f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"
    return _WRITERS[recipe["kind"]](recipe, shape, sizes)


def _write_causal(recipe: Recipe, shape: str, sizes: Sequence[Size]) -> str:
    square = f"torch.ones({sizes[-2]}, {sizes[-1]}, dtype=torch.bool).tril()"
    kept, masked = _number(recipe["kept"]), _number(recipe["masked"])
    return f"torch.where({square}, {kept}, {masked}).expand({shape})"


def _write_sorted(recipe: Recipe, shape: str, _sizes: Sequence[Size]) -> str:
    return f"torch.randint({recipe['low']}, {recipe['high'] + 1}, {shape}).sort().values"


def _write_offsets(recipe: Recipe, _shape: str, sizes: Sequence[Size]) -> str:
    lengths, counts = recipe["lengths"], [float(count) for count in recipe["counts"]]
    places = f"torch.multinomial(torch.tensor({counts}), {sizes[0]} - 1, replacement=True)"
    ends = f"(rows := torch.tensor({lengths})[{places}]).cumsum(0) * {recipe['high']} // rows.sum()"
    return f"torch.nn.functional.pad({ends}, (1, 0))"


def _write_ranked(recipe: Recipe, shape: str, _sizes: Sequence[Size]) -> str:
    band = f"torch.searchsorted(torch.tensor({recipe['below']}), torch.rand({shape}))"
    rank = f"(2.0 ** ({band} - 1) * (1 + torch.rand({shape}))).long()"
    return f"torch.randperm({recipe['high'] + 1})[{rank}.clamp(max={recipe['count'] - 1})]"


def _write_sparse(recipe: Recipe, shape: str, sizes: Sequence[Size]) -> str:
    rest = _write_values(recipe["of"], sizes)
    return f"(torch.rand({shape}) < {recipe['share']}) * ({rest})"


def _write_uniform(recipe: Recipe, shape: str, _sizes: Sequence[Size]) -> str:
    low, high = recipe["low"], recipe["high"]
    return f"torch.rand({shape}) * {high - low:.6g} + {low}"


def _write_mean(recipe: Recipe) -> str:
    return "" if _is_centred(recipe) else f" + {recipe['mean']}"


def _is_centred(recipe: Recipe) -> bool:
    return bool(abs(recipe["mean"]) <= _CENTRED_SHARE * recipe["std"])


def _number(value: float | str) -> str:
    return f'float("{value}")' if isinstance(value, str) else repr(value)


_WRITERS: dict[str, Callable[[Recipe, str, Sequence[Size]], str]] = {
    "zeros": lambda _r, shape, _s: f"torch.zeros({shape})",
    "ones": lambda _r, shape, _s: f"torch.ones({shape})",
    "constant": lambda r, shape, _s: f"torch.full({shape}, {_number(r['value'])})",
    "arange": lambda r, _shape, sizes: f"torch.arange({r['start']}, {r['start']} + {sizes[0]})",
    "permutation": lambda _r, _shape, sizes: f"torch.randperm({sizes[0]})",
    "sorted": _write_sorted,
    "offsets": _write_offsets,
    "ranked": _write_ranked,
    "integers": lambda r, shape, _s: f"torch.randint({r['low']}, {r['high'] + 1}, {shape})",
    "flags": lambda r, shape, _s: f"torch.rand({shape}) < {r['share']}",
    "causal": _write_causal,
    "probabilities": lambda _r, shape, _s: f"torch.randn({shape}).softmax(dim=-1)",
    "sparse": _write_sparse,
    "uniform": _write_uniform,
    "positive": lambda r, shape, _s: f"torch.randn({shape}).abs() * {r['rms']}",
    "normal": lambda r, shape, _s: f"torch.randn({shape}) * {r['std']}{_write_mean(r)}",
}


RECORDED_FILE = "recorded.safetensors"
VARIANT_FILE = "observed.py"


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
            *(_make_input(array, kernel) for array in plan.inputs),
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
        "id": "observed",
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


def _make_input(array: ArrayPlan, kernel: ObservedKernel) -> dict[str, Any]:
    own = {"fill": "normal"}
    if kernel.reference != "recorded" and not needs_input_function(kernel.plan):
        own = make_fill(array.recipe, array.dtype) or own
    elif kernel.reference == "variant":  # which has no file with a function for the inputs
        own = make_fill(array.recipe, array.dtype) or _choose_fill(array)
    return {**_make_array(array), **own}


def _choose_fill(array: ArrayPlan) -> dict[str, Any]:
    if array.dtype.startswith(("float", "bfloat")):
        return {"fill": "normal"}
    high = array.recipe.get("high", array.recipe.get("value", 1))
    return {"fill": "integers", "scale": float(high + 1)}


def _make_number(number: NumberPlan) -> dict[str, Any]:
    dtype = "float64" if isinstance(number.value, float) else "int64"
    return {"name": number.name, "dtype": dtype, "value": number.value}


def _make_reference(kernel: ObservedKernel) -> dict[str, Any]:
    if kernel.reference == "recorded":
        return {"recorded": RECORDED_FILE}
    if kernel.reference == "variant":
        return {"variant": "observed"}
    made: dict[str, Any] = {"file": "reference.py", "function": ENTRY}
    return {**made, "inputs": "make_inputs"} if needs_input_function(kernel.plan) else made
