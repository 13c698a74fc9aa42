"""The candidate's C entry point: pointers of inputs and outputs, the axes, a stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import torch

Call = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], int]


class KernelError(Exception):
    """The entry point returned something other than 0."""


def load(library: str, entry: str, axes: Sequence[int], target: str) -> Call:
    """Return a function of inputs and outputs that returns the entry point's code."""
    function = getattr(ctypes.CDLL(library), entry)
    function.restype = ctypes.c_int
    sizes = [ctypes.c_int64(size) for size in axes]

    def call(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> int:
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (*inputs, *outputs)]
        stream = torch.cuda.current_stream().cuda_stream if target == "cuda" else None
        code: int = function(*pointers, *sizes, ctypes.c_void_p(stream))
        return code

    return call


def checked(call: Call, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    """Call and wait.

    Raises:
        KernelError: The entry point reported an error.
    """
    code = call(inputs, outputs)
    if inputs[0].is_cuda:
        torch.cuda.synchronize()
    if code:
        raise KernelError(f"the entry point returned {code}{_cuda_name(code, inputs[0].is_cuda)}")


def _cuda_name(code: int, cuda: bool) -> str:
    if not cuda:
        return ""
    try:
        return f" ({torch.cuda.cudart().cudaGetErrorString(torch.cuda.cudart().cudaError(code))})"
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return ""
