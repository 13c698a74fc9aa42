"""Records which operations a reference runs, and runs it with another rule for NaN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CONVOLUTIONS = ("convolution", "_convolution", "mkldnn_convolution", "cudnn_convolution")
_MIXING_PREFIXES = (
    *("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "linear"),
    *("convolution", "_convolution", "mkldnn_", "cudnn_", "miopen_", "_fft_", "_cdist", "cdist"),
    *("_scaled_dot_product", "scaled_dot_product", "_efficient_attention", "_flash_attention"),
    *("_scaled_mm", "_int_mm", "_thnn_fused", "lstm", "gru", "einsum"),
)
_ORDERING = (
    *("argmax", "argmin", "topk", "sort", "argsort", "kthvalue", "median", "mode", "unique"),
    *("_unique", "_unique2", "unique_dim", "searchsorted", "bucketize", "nonzero", "histc"),
    *("multinomial", "msort", "cummax", "cummin"),
)
_RANKING = {"topk", "sort", "kthvalue", "median", "msort", "cummax", "cummin"}
_COMPARISONS = ("gt", "lt", "ge", "le", "eq", "ne", "where", "threshold", "sign", "isnan", "sgn")
_INDEXED = (
    *("index", "gather", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_select"),
    *("index_put", "_index_put_impl", "embedding", "bincount", "take", "index_copy", "one_hot"),
)
_STEPS = ("round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "floor_divide", "fmod",
          "remainder", *_COMPARISONS[:7], *_ORDERING)  # fmt: skip


def multiplies_matrices(operations: frozenset[str]) -> bool:
    """Return whether inputs of one output element reach others in some correct algorithms.

    FFT, Winograd and Strassen spread NaN and infinities, and their error follows the largest input.
    """
    return any(name.startswith(_MIXING_PREFIXES) for name in operations)


def convolves(operations: frozenset[str]) -> bool:
    """Return whether the reference runs a convolution."""
    return any(name in CONVOLUTIONS for name in operations)


def orders_elements(operations: frozenset[str]) -> bool:
    """Return whether the reference picks elements by their order, so that ties are ambiguous."""
    return any(name in _ORDERING for name in operations)


def sorts_values(operations: frozenset[str]) -> bool:
    """Return whether it only sorts, or picks by rank: the values are the same for any tie."""
    ordering = {name for name in operations if name in _ORDERING}
    return bool(ordering) and ordering <= _RANKING and not computes_any_index(operations)


def computes_any_index(operations: frozenset[str]) -> bool:
    """Return whether it indexes."""
    return any(name in _INDEXED for name in operations)


def compares_elements(operations: frozenset[str]) -> bool:
    """Return whether it compares elements, so that NaN may take either branch."""
    return any(name in _COMPARISONS for name in operations) or orders_elements(operations)


def computes_indices(operations: frozenset[str]) -> bool:
    """Return whether it indexes by something else than the order of elements."""
    return computes_any_index(operations) and not orders_elements(operations)


def has_steps(operations: frozenset[str]) -> bool:
    """Return whether its outputs may jump where an input changes by a rounding error."""
    return any(name in _STEPS for name in operations)


def record_operations(call: Callable[[], Any]) -> frozenset[str]:
    """Call a function and return the names of the ATen operations that it runs.

    Names are without overload and trailing underscore, such as ``mm`` and ``add``. A dispatch mode
    would tell the same, and import sympy first, which takes seconds.
    """
    with torch.autograd.profiler.profile() as profile:
        call()
    names = {event.name for event in profile.function_events or ()}
    return frozenset(n.removeprefix("aten::").rstrip("_") for n in names if n.startswith("aten::"))


class NanIgnoringMode(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it
    """While active, maxima and minima ignore NaN, as ``fmaxf`` of C and CUDA does.

    torch propagates NaN there; kernels that do not are in common use.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one function of torch, by another rule where there is one."""
        name = getattr(func, "__name__", "")
        replacement = _NAN_IGNORING.get(name.rstrip("_"))
        if replacement is None or not args or not isinstance(args[0], torch.Tensor):
            return func(*args, **(kwargs or {}))
        result = replacement(func, *args, **(kwargs or {}))
        return args[0].copy_(result) if name.endswith("_") else result


def _lowest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.nan_to_num(float("-inf"), float("inf"), float("-inf"))


def _highest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.nan_to_num(float("inf"), float("inf"), float("-inf"))


def _maximum_without_nan(func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if args and isinstance(args[0], torch.Tensor):
        return torch.fmax(tensor, args[0])
    return func(_lowest(tensor), *args, **kwargs)


def _minimum_without_nan(func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if args and isinstance(args[0], torch.Tensor):
        return torch.fmin(tensor, args[0])
    return func(_highest(tensor), *args, **kwargs)


def _lower_bound_without_nan(func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """NaN becomes the lower bound, as ``fminf(fmaxf(x, low), high)`` has it."""
    return func(_lowest(tensor), *args, **kwargs)


_BOUNDED = ("relu", "relu6", "clamp", "clamp_min", "clip", "hardtanh", "max_pool1d", "max_pool2d",
            "max_pool3d", "adaptive_max_pool2d")  # fmt: skip
_NAN_IGNORING: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("max", "amax", "maximum"), _maximum_without_nan),
    **dict.fromkeys(("min", "amin", "minimum"), _minimum_without_nan),
    **dict.fromkeys(_BOUNDED, _lower_bound_without_nan),
}
