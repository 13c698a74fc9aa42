"""How the values of observed tensors are drawn again: as a fill of a kernel.yaml, or in torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Size = str | int
"""An axis, or elements."""
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
    if kind == "integers" and recipe["high"] > 0 and dtype != "bool":
        low = {"low": recipe["low"]} if recipe["low"] else {}
        return {"fill": "integers", "scale": float(recipe["high"] + 1), **low}
    if kind == "permutation":
        return {"fill": kind}
    if kind == "flags" and recipe["share"] == 0.5:
        return {"fill": "integers", "scale": 2.0}
    return None


def _make_scale(scale: float) -> dict[str, float]:
    return {} if math.isclose(scale, 1.0, rel_tol=_CENTRED_SHARE) else {"scale": scale}


def choose_near_fill(recipe: Recipe, dtype: str) -> dict[str, Any]:
    """Return the fill that comes nearest to a recipe which none draws; integers keep their range.

    Args:
        recipe: Of which ``make_fill`` returns None.
        dtype: Of the tensor.
    """
    if dtype.startswith(("float", "bfloat")):
        return {"fill": "normal"}
    low, high = _find_range(recipe)
    if recipe["kind"] == "offsets" and high > 0:
        return {"fill": "offsets", "scale": float(high)}
    if recipe["kind"] == "arange" and low == 0:
        return {"fill": "permutation"}
    own = {"low": low} if low else {}
    return {"fill": "integers", "scale": float(max(high + 1, 1)), **own}


def explain_loss(recipe: Recipe, dtype: str) -> str:
    """Return what values of a recipe have that drawn ones lack; empty where the fill keeps it all.

    Args:
        recipe: Of which ``make_fill`` returns None.
        dtype: Of the tensor.
    """
    if dtype.startswith(("float", "bfloat")):
        return f"are like {dict(recipe)}; drawn ones are normal"
    low, high = _find_range(recipe)
    if recipe["kind"] in ("arange", "sorted") or recipe.get("is_sorted"):
        fits = low >= 0 and high > 0
        cure = f"; fill: offsets, scale: {high} draws ascending ones, from 0" if fits else ""
        return f"ascend; drawn ones do not{cure}"
    if recipe["kind"] == "distinct":
        return "all differ; drawn ones do not"
    if recipe["kind"] == "offsets" or (low == high and high >= 0):
        return ""
    return f"are {low} to {high} ({recipe['kind']}); drawn ones are so only by their range"


def _find_range(recipe: Recipe) -> tuple[int, int]:
    """Return the smallest and the largest of the integers of a recipe, as far as it tells."""
    values = [int(recipe[key]) for key in ("value", "kept", "masked") if key in recipe]
    if values:
        return min(values), max(values)
    return int(recipe.get("low", 0)), int(recipe.get("high", 1))


def write_values(recipe: Recipe, sizes: Sequence[Size]) -> str:
    """Return an expression of torch that draws values like a recipe, of these sizes."""
    shape = f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"
    return _WRITERS[recipe["kind"]](recipe, shape, sizes)


def _write_causal(recipe: Recipe, shape: str, sizes: Sequence[Size]) -> str:
    square = f"torch.ones({sizes[-2]}, {sizes[-1]}, dtype=torch.bool).tril()"
    kept, masked = _number(recipe["kept"]), _number(recipe["masked"])
    return f"torch.where({square}, {kept}, {masked}).expand({shape})"


def _write_distinct(recipe: Recipe, shape: str, _sizes: Sequence[Size]) -> str:
    every = f"torch.randperm({recipe['high'] - recipe['low'] + 1})"
    taken = f"{every}[:torch.Size({shape}).numel()].view({shape}) + {recipe['low']}"
    return f"({taken}).sort().values" if recipe["is_sorted"] else taken


def _write_offsets(recipe: Recipe, _shape: str, sizes: Sequence[Size]) -> str:
    lengths, counts = recipe["lengths"], [float(count) for count in recipe["counts"]]
    places = f"torch.multinomial(torch.tensor({counts}), {sizes[0]} - 1, replacement=True)"
    ends = f"(rows := torch.tensor({lengths})[{places}]).cumsum(0) * {recipe['high']} // rows.sum()"
    return f"torch.nn.functional.pad({ends}, (1, 0))"


def _write_ranked(recipe: Recipe, shape: str, _sizes: Sequence[Size]) -> str:
    band = f"torch.searchsorted(torch.tensor({recipe['below']}), torch.rand({shape}))"
    rank = f"(2.0 ** ({band} - 1) * (1 + torch.rand({shape}))).long()"
    return f"torch.randperm({recipe['high'] + 1})[{rank}.clamp(max={recipe['count'] - 1})]"


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
    "sorted": lambda r, shape, sizes: f"{_WRITERS['integers'](r, shape, sizes)}.sort().values",
    "distinct": _write_distinct,
    "offsets": _write_offsets,
    "ranked": _write_ranked,
    "integers": lambda r, shape, _s: f"torch.randint({r['low']}, {r['high'] + 1}, {shape})",
    "flags": lambda r, shape, _s: f"torch.rand({shape}) < {r['share']}",
    "causal": _write_causal,
    "probabilities": lambda _r, shape, _s: f"torch.randn({shape}).softmax(dim=-1)",
    "sparse": lambda r, shape, sizes: (
        f"({_WRITERS['flags'](r, shape, sizes)}) * ({write_values(r['of'], sizes)})"
    ),
    "uniform": lambda r, shape, _s: (
        f"torch.rand({shape}) * {r['high'] - r['low']:.6g} + {r['low']}"
    ),
    "positive": lambda r, shape, _s: f"torch.randn({shape}).abs() * {r['rms']}",
    "normal": lambda r, shape, _s: (
        f"torch.randn({shape}) * {r['std']}" + ("" if _is_centred(r) else f" + {r['mean']}")
    ),
}
