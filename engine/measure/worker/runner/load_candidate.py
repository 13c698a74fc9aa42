"""What can be timed: a candidate in any of its languages, and what it is compared with.

Everything here runs in a runner, next to the candidate's code; nothing here judges.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelkb.measure.worker.shared.python_files import (
    create_module,
    import_from_spec,
    import_python_file,
)

TensorTuple = tuple[torch.Tensor, ...]
BoundCall = Callable[[int], Any]
"""Takes a stream; gives an error code (0 or None is none) or, returning, the outputs."""
Binder = Callable[[Sequence[Any], Sequence[torch.Tensor], Sequence[int]], BoundCall]
"""Takes inputs, outputs and axes; gives the call that is timed."""


class KernelError(Exception):
    """The candidate reported an error, or returned what no kernel may return."""


def load_code(code_spec: dict[str, Any], target: str) -> Binder:
    """Return what a job names, ready to be bound to arrays.

    Args:
        code_spec: ``{"kind", …}``; see the functions below for what each kind needs.
        target: ``cpu`` or ``cuda``.
    """
    kinds: dict[str, Callable[[dict[str, Any], str], Binder]] = {
        "c": _load_c_entry,
        "tvm-ffi": _load_tvm_ffi,
        "torch-extension": _load_torch_extension,
        "python": _load_python_function,
        "module": _load_torch_module,
    }
    return kinds[code_spec["kind"]](code_spec, target)


def _load_c_entry(code_spec: dict[str, Any], _target: str) -> Binder:
    """``{"library", "entry"}``: pointers of inputs and outputs, the axes, a stream; returns int."""
    function = getattr(ctypes.CDLL(code_spec["library"]), code_spec["entry"])
    function.restype = ctypes.c_int

    def bind(
        inputs: Sequence[Any], outputs: Sequence[torch.Tensor], axes: Sequence[int]
    ) -> BoundCall:
        fixed = [_to_c_value(value) for value in (*inputs, *outputs)]
        fixed += [ctypes.c_int64(size) for size in axes]
        kept = (*inputs, *outputs)

        def call(stream: int) -> int:
            _ = kept
            code: int = function(*fixed, ctypes.c_void_p(stream))
            return code

        return call

    return bind


def _to_c_value(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)


def _load_tvm_ffi(code_spec: dict[str, Any], _target: str) -> Binder:
    """``{"library", "entry"}``: a packed function of tensors; the stream is torch's current one."""
    import tvm_ffi

    return _make_tensor_binder(
        tvm_ffi.load_module(code_spec["library"])[code_spec["entry"]], returns=False
    )


def _load_torch_extension(code_spec: dict[str, Any], _target: str) -> Binder:
    """``{"library", "module", "entry", "returns"}``: a Python extension module."""
    spec = importlib.util.spec_from_file_location(code_spec["module"], code_spec["library"])
    return _make_tensor_binder(
        getattr(import_from_spec(spec, code_spec["library"]), code_spec["entry"]),
        returns=code_spec["returns"],
    )


def _load_python_function(code_spec: dict[str, Any], _target: str) -> Binder:
    """``{"file", "entry", "returns", "compile", "out"}``: a function in a Python file."""
    function = getattr(import_python_file(code_spec["file"]), code_spec["entry"])
    if code_spec.get("compile"):
        function = torch.compile(function)
    elif code_spec.get("out") and "out" in _parameter_names(function):
        return _make_out_binder(function)  # allocating is not its work where it is not its rival's
    return _make_tensor_binder(function, returns=code_spec["returns"])


def _load_torch_module(code_spec: dict[str, Any], target: str) -> Binder:
    """``{"file", "entry", "task", "seed", "compile"}``: a ``torch.nn.Module`` of a task.

    The seed makes the weights those of the reference, as long as both draw them in one order.
    """
    module = create_module(
        code_spec["file"], code_spec["entry"], code_spec["task"], code_spec["seed"]
    ).to(target)
    return _make_tensor_binder(
        torch.compile(module) if code_spec.get("compile") else module, returns=True
    )


def _parameter_names(function: Any) -> Sequence[str]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def _make_out_binder(function: Any) -> Binder:
    def bind(
        inputs: Sequence[Any], outputs: Sequence[torch.Tensor], _axes: Sequence[int]
    ) -> BoundCall:
        out = outputs[0] if len(outputs) == 1 else tuple(outputs)

        def call(_stream: int) -> None:
            function(*inputs, out=out)

        return call

    return bind


def _make_tensor_binder(function: Any, *, returns: bool) -> Binder:
    def bind(
        inputs: Sequence[Any], outputs: Sequence[torch.Tensor], _axes: Sequence[int]
    ) -> BoundCall:
        given = tuple(inputs) if returns else (*inputs, *outputs)

        def call(_stream: int) -> Any:
            result = function(*given)
            return result if returns else None

        return call

    return bind


def validate_outputs(result: Any, outputs: Sequence[torch.Tensor]) -> TensorTuple:
    """Return what was returned as a tuple of ordinary tensors.

    Raises:
        KernelError: It is lazy, or not as many or not of the shape and type that were asked for.
    """
    made = tuple(result) if isinstance(result, tuple | list) else (result,)
    if len(made) != len(outputs):
        raise KernelError(f"it returned {len(made)} outputs, the kernel has {len(outputs)}")
    for one, want in zip(made, outputs, strict=True):
        if type(one) not in (torch.Tensor, torch.nn.Parameter):
            raise KernelError(f"it returned a {type(one).__name__}, not a torch.Tensor")
        for what in ("shape", "dtype", "device"):
            if getattr(one, what) != getattr(want, what):
                found = _format_attribute(getattr(one, what))
                wanted = _format_attribute(getattr(want, what))
                raise KernelError(f"it returned {what} {found}, not {wanted}")
    return made


def _format_attribute(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value).removeprefix("torch.")
