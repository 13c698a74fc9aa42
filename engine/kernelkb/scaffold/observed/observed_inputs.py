"""Inputs like those that were observed: as ``fill`` of a kernel.yaml, or drawn by a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernelkb.scaffold.observed.observed_shapes import ArrayPlan, ObservedPlan, Size

Recipe = Mapping[str, Any]
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
    sizes = ", ".join(axis for axis in plan.axes if axis not in values)
    head = f"def make_inputs({sizes}):", '    """Draw inputs distributed as the program\'s."""'
    lines = [f"    {array.name} = {_draw(array)}" for array in plan.inputs]
    names = ", ".join(array.name for array in plan.inputs)
    return "\n".join([*head, *lines, f"    return [{names}]"]) + "\n"


def _draw(array: ArrayPlan) -> str:
    """Return an expression that draws an array."""
    values = _write_values(array.recipe, array.shape)
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
    "integers": lambda r, shape, _s: f"torch.randint({r['low']}, {r['high'] + 1}, {shape})",
    "flags": lambda r, shape, _s: f"torch.rand({shape}) < {r['share']}",
    "causal": _write_causal,
    "probabilities": lambda _r, shape, _s: f"torch.randn({shape}).softmax(dim=-1)",
    "sparse": _write_sparse,
    "uniform": _write_uniform,
    "positive": lambda r, shape, _s: f"torch.randn({shape}).abs() * {r['rms']}",
    "normal": lambda r, shape, _s: f"torch.randn({shape}) * {r['std']}{_write_mean(r)}",
}
