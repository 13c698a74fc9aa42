"""Makes a rival compute in 16 bits: weights are converted once, inputs and outputs in each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def convert_tensors(function: Callable[..., Any], dtype: torch.dtype) -> Callable[..., Any]:
    """Return a function that computes in ``dtype`` and takes and returns fp32 like the given one.

    Args:
        function: Takes and returns tensors of any dtype; a tensor, or a tuple or list of them.
        dtype: fp32 inputs are converted to it; outputs of this dtype are converted to fp32.
    """

    def call(*arguments: Any) -> Any:
        result = function(*(_convert(value, torch.float32, dtype) for value in arguments))
        if isinstance(result, tuple | list):
            return tuple(_convert(value, dtype, torch.float32) for value in result)
        return _convert(result, dtype, torch.float32)

    return call


def copy_to_out(function: Callable[..., Any]) -> Callable[..., None]:
    """Return a function that takes ``out`` as well and copies the outputs there."""

    def call(*arguments: Any, out: Any) -> None:
        result = function(*arguments)
        results: Sequence[Any] = result if isinstance(result, tuple | list) else (result,)
        targets = out if isinstance(out, tuple) else (out,)
        for target, value in zip(targets, results, strict=True):
            target.copy_(value)

    return call


def _convert(value: Any, source: torch.dtype, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.dtype == source else value
