"""Describes one call: its tensors with their values, its numbers, its objects, other arguments."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kernelkb.measure.worker.observe.names import is_installed, name_module
from kernelkb.measure.worker.observe.surroundings import read_autocast
from kernelkb.measure.worker.shared.array_values import DTYPE_NAMES
from kernelkb.measure.worker.shared.messages.observed import (
    ObservedCall,
    ObservedNumber,
    ObservedTensor,
)

_MAX_TENSORS = 48
"""Of a module that is an argument: one with more is a whole model."""
_MODULE_FIELDS = frozenset(vars(torch.nn.Module())) - {"training"}

DescribeField = Callable[[str, Any], dict[str, Any]]

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
_DISTINCT_SQUARES = 8
"""Drawn from a room of n, more than sqrt(8 n) integers are all different once in 50 times."""
_MAX_ROOM = 10**8
"""Of distinct integers: drawing them makes all of their room."""
_HOT_RATIO, _HOT_COUNT = 4.0, 32
"""How often the most frequent value comes at least, over the mean and at all: more than chance."""
_MAX_LENGTHS = 32

Recipe = dict[str, Any]

_MAX_DEPTH = 6
_MAX_ITEMS = 64
"""Of a list among the arguments: longer ones are data."""
_MAX_TEXT_LENGTH = 200
_SUMMED = 2**18
"""Elements that are summed up at once, which takes 24 bytes each beside the tensor: few, as the
program may measure how much memory it uses."""
_TORCH_VALUES = (torch.dtype, torch.layout, torch.memory_format, torch.device)


class UnsupportedCall(Exception):
    """A call that cannot be recorded; the text says why."""


class CallDescription:
    """The arguments of one call, as they are before it.

    Attributes:
        tensors: All tensors among the arguments, in order, each once.
        arguments: See ``ObservedCall``.
        signature: Equal for calls with the same shapes, strides, dtypes and other arguments.
    """

    def __init__(
        self, positional: Sequence[tuple[str, Any]], named: Mapping[str, Any], launch: Any = None
    ) -> None:
        """Describe a call.

        Args:
            positional: Names and values of the arguments that are passed by position.
            named: Those passed by name.
            launch: Of a Triton kernel: what is kept beside the arguments.
        """
        self.tensors: list[torch.Tensor] = []
        self._names: list[str] = []
        self.numbers: list[ObservedNumber] = []
        self.launch = launch
        self.autocast = {} if launch else read_autocast()
        self.arguments = {
            "positional": [self._describe(name, value, 0) for name, value in positional],
            "named": {name: self._describe(name, value, 0) for name, value in named.items()},
        }
        layouts = [
            (list(t.shape), list(t.stride()), str(t.dtype), t.device.type) for t in self.tensors
        ]
        self.signature = repr((layouts, self.numbers, self.arguments, launch, self.autocast))
        self.versions = [_read_version(tensor) for tensor in self.tensors]
        self._sums: list[int] = []

    def _describe(self, name: str, value: Any, depth: int) -> dict[str, Any]:
        if isinstance(value, torch.Tensor):
            return {"tensor": self._add_tensor(name, value)}
        if isinstance(value, (bool, str, type(None))):
            return _describe_literal(value)
        if isinstance(value, (int, float)):
            if depth:
                return {"code": repr(value), "integer": isinstance(value, int)}
            self.numbers.append({"name": name, "value": value})
            return {"number": len(self.numbers) - 1}
        if isinstance(value, _TORCH_VALUES):
            return {"code": _write_torch_value(value)}
        if isinstance(value, (list, tuple)) and len(value) <= _MAX_ITEMS and depth < _MAX_DEPTH:
            kind = "tuple" if isinstance(value, tuple) else "list"
            items = enumerate(value)
            return {kind: [self._describe(f"{name}_{i}", item, depth + 1) for i, item in items]}
        if isinstance(value, torch.autograd.function.FunctionCtx):
            return {"context": True}
        if depth < _MAX_DEPTH and is_describable(value):
            prefix = "" if name == "self" else f"{name}_"
            return describe_object(
                value, lambda key, own: self._describe(f"{prefix}{key}", own, depth + 1)
            )
        return {"object": type(value).__name__}

    def _add_tensor(self, name: str, tensor: torch.Tensor) -> int:
        for at, known in enumerate(self.tensors):
            if known is tensor:
                return at
        self.tensors.append(tensor)
        self._names.append(name)
        return len(self.tensors) - 1

    def make_call(self) -> ObservedCall:
        """Return its record, without outputs: they are not known yet.

        Raises:
            UnsupportedCall: There is no tensor, or one without values in memory.
        """
        if not self.tensors:
            raise UnsupportedCall("it has no tensor among its arguments")
        return {
            "count": 0,
            "tensors": list(map(describe_tensor, self._names, self.tensors)),
            "numbers": self.numbers,
            "arguments": self.arguments,
            "outputs": [],
            "changed": [],
            "launch": self.launch,
            "autocast": self.autocast,
            "file": None,
        }

    def sum_up(self) -> None:
        """Keep a number for the values of each tensor, where they are too large to be kept."""
        self._sums = list(map(_sum_up, self.tensors))

    def find_changed(self, copies: Sequence[torch.Tensor] | None) -> list[int]:
        """Return which tensors the call changed: by torch's count of changes, or by their values.

        Args:
            copies: Of the tensors before the call; None where they were summed up.
        """
        changed = []
        for at, tensor in enumerate(self.tensors):
            is_changed = _read_version(tensor) != self.versions[at]
            if not is_changed and copies is not None:
                is_changed = not _has_same_bits(tensor, copies[at])
            elif not is_changed and self._sums:
                is_changed = _sum_up(tensor) != self._sums[at]
            if is_changed:
                changed.append(at)
        return changed


def describe_tensor(name: str, tensor: torch.Tensor) -> ObservedTensor:
    """Return shape, layout and recipe of a tensor.

    Raises:
        UnsupportedCall: It is sparse, nested, of a dtype that no kernel.yaml names, or on another
            kind of device.
    """
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise UnsupportedCall(f"{name} is not a dense tensor")
    if tensor.dtype not in DTYPE_NAMES:
        raise UnsupportedCall(
            f"{name} is of dtype {str(tensor.dtype).removeprefix('torch.')}, which no kernel.yaml "
            "names; name a function that takes it as another, such as torch.view_as_real, or "
            ".view(torch.uint8)"
        )
    if tensor.device.type not in ("cpu", "cuda"):
        raise UnsupportedCall(f"{name} is on the device {tensor.device.type}")
    return {
        "name": name,
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "device": tensor.device.type,
        "recipe": describe_values(tensor),
    }


def list_tensors(result: Any) -> list[torch.Tensor]:
    """Return the tensors in what a call returned, in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        return [tensor for value in result.values() for tensor in list_tensors(value)]
    if isinstance(result, (list, tuple)):
        return [tensor for value in result for tensor in list_tensors(value)]
    return []


def _describe_literal(value: bool | str | None) -> dict[str, Any]:
    if isinstance(value, str) and len(value) > _MAX_TEXT_LENGTH:
        return {"object": "str"}
    return {"code": repr(value)}


def _write_torch_value(value: Any) -> str:
    if isinstance(value, torch.device):
        return f"torch.device({value.type!r})"
    return re.sub(r"[^\w.]", "", str(value))


def _read_version(tensor: torch.Tensor) -> int:
    """Return how often torch changed a tensor; −1 where it does not count that."""
    try:
        return int(tensor._version)
    except RuntimeError:  # of inference mode
        return -1


def _has_same_bits(tensor: torch.Tensor, copy: torch.Tensor) -> bool:
    return bool(torch.equal(_view_bits(tensor.detach().cpu()), _view_bits(copy)))


def _view_bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a flat tensor's bits as integers: few operations know every dtype."""
    kinds = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.reshape(-1).view(kinds[tensor.element_size()])


def _sum_up(tensor: torch.Tensor) -> int:
    """Return the sum of a tensor's bits as integers, each times its place, modulo 2**64."""
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for part in _view_bits(tensor.detach()).split(_SUMMED):
        places = torch.arange(1, len(part) + 1, device=tensor.device)
        total = total * 31 + (part.to(torch.int64) * places).sum()
    return int(total)


def describe_values(tensor: torch.Tensor) -> Recipe:
    """Return the recipe of a tensor's values.

    Kinds: ``zeros``, ``ones``, ``constant`` (value), ``arange`` (start), ``permutation``,
    ``sorted`` (low, high, inclusive), ``distinct`` (low, high, is_sorted), ``offsets`` (high,
    lengths, counts), ``integers`` (low, high, inclusive), ``ranked`` (high, count, below),
    ``flags`` (share), ``causal`` (kept, masked: the values of a lower triangle and of the rest),
    ``probabilities`` (rows that sum to 1), ``sparse`` (share, and ``of``: the recipe of the rest),
    ``uniform`` (low, high), ``positive`` (rms) and ``normal`` (mean, std).

    Args:
        tensor: Of any shape, dtype, strides and device.
    """
    if tensor.numel() == 0:
        return {"kind": "zeros"}
    with torch.no_grad():
        array = tensor.detach()
        if array.is_floating_point() and array.element_size() == 1:
            array = array.to(torch.float32)  # few operations know these
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
            is_distinct = bool((steps > 0).all()) and _is_no_chance(len(flat), high - low + 1)
            own = {"kind": "distinct", "is_sorted": True} if is_distinct else {"kind": "sorted"}
            return {**own, "low": low, "high": high}
        if low == 0 and high == len(flat) - 1 and len(flat.unique()) == len(flat):
            return {"kind": "permutation"}
    if _is_no_chance(len(flat), high - low + 1) and len(flat.unique()) == len(flat):
        return {"kind": "distinct", "is_sorted": False, "low": low, "high": high}
    return (
        _describe_skew(flat, high) if low >= 0 else {"kind": "integers", "low": low, "high": high}
    )


def _is_no_chance(count: int, room: int) -> bool:
    """Whether so many drawn integers would hardly be distinct: then they are so on purpose.

    Where a kernel writes to such places, equal ones would make its result a matter of chance.
    """
    return count**2 > _DISTINCT_SQUARES * room and count <= room <= _MAX_ROOM


def _describe_skew(flat: torch.Tensor, high: int) -> Recipe:
    """Return the recipe of integers from 0 on: by rank, where one comes far more often than most.

    ``below`` are the shares of the 1, 2, 4, 8 ... most frequent ones together.
    """
    counts = _take_sample(flat).to(torch.int64).unique(return_counts=True)[1]
    ordered = counts.sort(descending=True).values.to(torch.float64)
    if float(ordered[0]) < max(_HOT_COUNT, _HOT_RATIO * float(ordered.mean())):
        return {"kind": "integers", "low": int(flat.min()), "high": high}
    shares = (ordered.cumsum(0) / ordered.sum()).tolist()
    places = [2**at - 1 for at in range(len(shares).bit_length() + 1)]
    below = [_round(shares[min(place, len(shares) - 1)]) for place in places]
    return {"kind": "ranked", "high": high, "count": len(shares), "below": below}


def describe_offsets(offsets: torch.Tensor) -> Recipe:
    """Return the recipe of offsets from 0 on: lengths of rows, and how often each comes.

    Of many lengths, those near each other are one: their mean.
    """
    lengths = offsets.reshape(-1).to(torch.int64).diff().cpu()
    values, counts = lengths.unique(return_counts=True)
    if len(values) > _MAX_LENGTHS:
        scale = (_MAX_LENGTHS - 1) / math.log1p(int(values[-1]))
        values = (lengths.to(torch.float64).log1p() * scale).round().to(torch.int64)
        groups, places, counts = values.unique(return_inverse=True, return_counts=True)
        sums = torch.zeros(len(groups), dtype=torch.float64)
        values = (sums.index_add(0, places, lengths.to(torch.float64)) / counts).round()
    found = {"lengths": [int(value) for value in values], "counts": counts.tolist()}
    return {"kind": "offsets", "high": int(offsets.reshape(-1)[-1]), **found}


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
    first = array[(0,) * (array.dim() - 1)].to(torch.float32).sum()
    if not bool((first - 1).abs() < _SUM_TOLERANCE):  # spares a copy of all
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


def is_describable(value: Any) -> bool:
    """Return whether an object can be made anew from its attributes.

    That holds for a module of few tensors, and for an object of plain attributes, such as a
    configuration.
    """
    if isinstance(value, type) or not hasattr(value, "__dict__") or callable(value):
        return isinstance(value, torch.nn.Module) and _count_tensors(value) <= _MAX_TENSORS
    return type(value).__module__ != "builtins"


def describe_object(value: Any, describe: DescribeField) -> dict[str, Any]:
    """Return the tree of an object; see ``ObservedCall.arguments``.

    Args:
        value: An object that ``is_describable``.
        describe: Describes an attribute, given a name for its tensors and its value.
    """
    if not isinstance(value, torch.nn.Module):
        plain = {name: describe(name, own) for name, own in vars(value).items()}
        return {"namespace": plain}
    own = {name: v for name, v in vars(value).items() if name not in _MODULE_FIELDS}
    parts = {**own, **value._parameters, **value._buffers, **value._modules}
    module = type(value)
    file = getattr(sys.modules.get(module.__module__), "__file__", None) or ""
    return {
        "module": {
            "class": f"{name_module(module.__module__)}:{module.__qualname__}",
            "is_library": is_installed(file),
            "fields": {name: describe(name, part) for name, part in parts.items()},
        }
    }


def _count_tensors(module: torch.nn.Module) -> int:
    return len(list(module.parameters())) + len(list(module.buffers()))
