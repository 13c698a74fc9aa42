"""How the values of a tensor are distributed: a recipe by which others like them can be drawn."""

from __future__ import annotations

import math
from typing import Any

import torch

_MAX_SAMPLE = 2**18
"""Elements that are looked at: a mean of so many is off by 0.2 % of the standard deviation."""
_MIN_COUNT = 32
"""Below, the shape of a distribution cannot be told; a normal one is drawn."""
_UNIFORM_KURTOSIS = 1.8
_KURTOSIS_TOLERANCE = 0.35
"""A normal distribution has 3."""
_SPARSE_SHARE = 0.2
"""From this share of zeros on a tensor is a masked one."""
_SUM_TOLERANCE = 1e-2
_BOUND_SHARE = 0.01
"""Of a range, how far the extremes of many draws may be from its ends."""
_DIGITS = 4

Recipe = dict[str, Any]


def describe_values(tensor: torch.Tensor) -> Recipe:
    """Return the recipe of a tensor's values.

    Kinds: ``zeros``, ``ones``, ``constant`` (value), ``arange`` (start), ``permutation``,
    ``sorted`` (low, high, inclusive), ``integers`` (low, high, inclusive), ``flags`` (share),
    ``causal`` (kept, masked: the values of a lower triangle and of the rest), ``probabilities``
    (rows that sum to 1), ``sparse`` (share, and ``of``: the recipe of the rest), ``uniform`` (low,
    high), ``positive`` (rms) and ``normal`` (mean, std).

    Args:
        tensor: Of any shape, dtype, strides and device.
    """
    if tensor.numel() == 0:
        return {"kind": "zeros"}
    with torch.no_grad():
        array = tensor.detach()
        causal = _describe_causal(array)
        if causal is not None:
            return causal
        if array.dtype == torch.bool:
            return _describe_flags(array)
        if array.is_floating_point():
            return _describe_floats(array)
        return _describe_integers(array)


def _take_sample(array: torch.Tensor) -> torch.Tensor:
    """Return some elements in their order, of a flat array; all of a small one."""
    flat = array.reshape(-1)
    step = max(1, flat.numel() // _MAX_SAMPLE)
    return flat[::step].cpu()


def _describe_causal(array: torch.Tensor) -> Recipe | None:
    """Return the recipe of a lower triangle of one value, and another value elsewhere."""
    if array.dim() < 2 or array.shape[-1] != array.shape[-2] or array.shape[-1] < 2:
        return None
    first = array.reshape(-1, *array.shape[-2:])[0].cpu()
    kept, masked = first[0, 0], first[0, 1]
    if bool(kept == masked) or bool(kept.isnan() if kept.is_floating_point() else False):
        return None
    triangle = torch.ones(first.shape, dtype=torch.bool).tril()
    expected = torch.where(triangle, kept, masked)
    if not torch.equal(expected, first):
        return None
    if not bool((array == expected.to(array.device)).all()):
        return None
    return {"kind": "causal", "kept": _to_number(kept), "masked": _to_number(masked)}


def _to_number(value: torch.Tensor) -> Any:
    """Return a number that JSON has: infinities as text."""
    number = value.item()
    is_finite = not isinstance(number, float) or math.isfinite(number)
    return number if is_finite else str(number)


def _describe_flags(array: torch.Tensor) -> Recipe:
    share = float(_take_sample(array).to(torch.float32).mean())
    if share in (0.0, 1.0):
        return {"kind": "ones" if share else "zeros"}
    return {"kind": "flags", "share": _round(share)}


def _describe_integers(array: torch.Tensor) -> Recipe:
    low, high = int(array.min()), int(array.max())
    if low == high:
        kinds = {0: "zeros", 1: "ones"}
        return {"kind": kinds[low]} if low in kinds else {"kind": "constant", "value": low}
    flat = array.reshape(-1)
    if array.dim() == 1:
        steps = flat.to(torch.int64).diff()
        if bool((steps == 1).all()):
            return {"kind": "arange", "start": low}
        if bool((steps >= 0).all()):
            return {"kind": "sorted", "low": low, "high": high}
        if low == 0 and high == len(flat) - 1 and len(flat.unique()) == len(flat):
            return {"kind": "permutation"}
    return {"kind": "integers", "low": low, "high": high}


def _describe_floats(array: torch.Tensor) -> Recipe:
    sample = _take_sample(array).to(torch.float64)
    finite = sample[sample.isfinite()]
    if not len(finite):
        return {"kind": "constant", "value": _to_number(sample[0])}
    low, high = float(finite.min()), float(finite.max())
    if len(finite) == len(sample) and low == high:
        kinds = {0.0: "zeros", 1.0: "ones"}
        return {"kind": kinds[low]} if low in kinds else {"kind": "constant", "value": low}
    zero_share = float((finite == 0).to(torch.float64).mean())
    if _are_probabilities(array, low):
        return {"kind": "probabilities"}
    if zero_share >= _SPARSE_SHARE and low != high:
        rest = _describe_spread(finite[finite != 0])
        return {"kind": "sparse", "share": _round(1 - zero_share), "of": rest}
    return _describe_spread(finite)


def _are_probabilities(array: torch.Tensor, low: float) -> bool:
    if low < 0 or array.dim() == 0 or array.shape[-1] < 2:
        return False
    sums = array.to(torch.float32).sum(dim=-1)
    return bool(((sums - 1).abs() < _SUM_TOLERANCE).all())


def _describe_spread(values: torch.Tensor) -> Recipe:
    """Return the recipe of finite values: by their range, their sign and how heavy their tails."""
    low, high, mean = float(values.min()), float(values.max()), float(values.mean())
    std = float(values.std(correction=0))
    if std == 0.0:
        return {"kind": "constant", "value": low}
    kurtosis = float(((values - mean) / std).pow(4).mean())
    if len(values) >= _MIN_COUNT and abs(kurtosis - _UNIFORM_KURTOSIS) < _KURTOSIS_TOLERANCE:
        span = high - low
        bounds = {"low": _round_bound(low, span), "high": _round_bound(high, span)}
        return {"kind": "uniform", **bounds}
    if low >= 0:
        return {"kind": "positive", "rms": _round(math.hypot(mean, std))}
    return {"kind": "normal", "mean": _round(mean), "std": _round(std)}


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _round_bound(value: float, span: float) -> float:
    """Return a bound with few digits; a whole number where the extreme of many draws is near it."""
    nearest = round(value)
    return float(nearest) if abs(value - nearest) < _BOUND_SHARE * span else _round(value)
