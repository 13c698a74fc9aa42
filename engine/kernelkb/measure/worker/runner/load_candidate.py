"""Loads a candidate or rival in any supported language and binds it to arrays."""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelkb.measure.worker.runner.library_runner import load_c_function, to_c_number
from kernelkb.measure.worker.shared.failures import KernelError
from kernelkb.measure.worker.shared.fp32_precision import HALF_DTYPES, set_fp32_precision
from kernelkb.measure.worker.shared.messages.specs import (
    CEntryCode,
    Code,
    ModuleCode,
    PythonCode,
    Target,
    TorchExtensionCode,
    TvmFfiCode,
)
from kernelkb.measure.worker.shared.python_files import (
    create_candidate_model,
    create_task_model,
    import_from_spec,
    import_python_file,
)

TensorTuple = tuple[torch.Tensor, ...]
BoundCall = Callable[[int], Any]
"""Takes a stream (a ``cudaStream_t`` as an integer; 0 on a CPU). Returns an error code (0 or None:
no error), or the outputs of code that returns them."""
Binder = Callable[[Sequence[Any], Sequence[torch.Tensor], Sequence[int]], BoundCall]
"""Takes inputs (tensors and numbers, in the order of the arguments), output tensors and the sizes
of the axes; returns the call that is timed."""


def load_code(code: Code, target: Target) -> Binder:
    """Load code, ready to be bound to arrays.

    Raises:
        Exception: Any that loading raises: a missing library or symbol, an error in its source.
    """
    return load_code_and_compare(code, target)[0]


def load_code_and_compare(code: Code, target: Target) -> tuple[Binder, list[str]]:
    """Load code like ``load_code``; also name parameters of the task's model that it lacks."""
    if code["kind"] != "python" and code["kind"] != "module":
        return _load_compiled(code), []
    if "precision" in code:
        set_fp32_precision(code["precision"])
    loaded = (
        (_load_python_function(code), [])
        if code["kind"] == "python"
        else _load_torch_module(code, target)
    )
    if "precision" in code:  # again: its file may have set another
        set_fp32_precision(code["precision"])
    return loaded


def _load_compiled(code: CEntryCode | TvmFfiCode | TorchExtensionCode) -> Binder:
    if code["kind"] == "c":
        return _load_c_entry(code)
    if code["kind"] == "tvm-ffi":
        return _load_tvm_ffi(code)
    return _load_torch_extension(code)


def _load_c_entry(code: CEntryCode) -> Binder:
    """Arguments: pointers of inputs and outputs, numbers, axes (int64), stream; returns int."""
    function = load_c_function(code)

    def bind(
        inputs: Sequence[Any], outputs: Sequence[torch.Tensor], axes: Sequence[int]
    ) -> BoundCall:
        arguments = [_to_c_value(value) for value in (*inputs, *outputs)]
        arguments += [ctypes.c_int64(size) for size in axes]
        live_tensors = (*inputs, *outputs)

        def call(stream: int) -> int:
            _ = live_tensors  # the closure keeps the memory behind the pointers
            return function(*arguments, ctypes.c_void_p(stream))

        return call

    return bind


def _to_c_value(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return to_c_number(value)


def _load_tvm_ffi(code: TvmFfiCode) -> Binder:
    """A packed function of tensors; the stream is torch's current one."""
    import tvm_ffi

    function = tvm_ffi.load_module(code["library"])[code["entry"]]
    return _make_tensor_binder(function, returns=False)


def _load_torch_extension(code: TorchExtensionCode) -> Binder:
    spec = importlib.util.spec_from_file_location(code["module"], code["library"])
    module = import_from_spec(spec, code["library"])
    return _make_tensor_binder(getattr(module, code["entry"]), returns=code["returns"])


def _load_python_function(code: PythonCode) -> Binder:
    function = getattr(import_python_file(code["file"]), code["entry"])
    takes_out = code["use_out"] and "out" in _parameter_names(function)
    dtype = HALF_DTYPES.get(code.get("precision", ""))
    if dtype is not None:
        function = convert_tensors(function, dtype)
        function = copy_to_out(function) if takes_out and not code["compile"] else function
    if code["compile"]:
        function = torch.compile(function)
    elif takes_out:
        # The candidate does not allocate its outputs, so its rival must not have to.
        return _make_out_binder(function)
    return _make_tensor_binder(function, returns=code["returns"])


def _load_torch_module(code: ModuleCode, target: Target) -> tuple[Binder, list[str]]:
    """Draw the reference's weights, as long as both draw them in the same order from one seed."""
    file, task, seed = code["file"], code["task"], code["seed"]
    missing: list[str] = []
    if file == task:
        module = create_task_model(file, code["entry"], seed)
    else:
        module, missing = create_candidate_model(
            file, code["entry"], task, code["task_entry"], seed
        )
    module = module.to(target)
    dtype = HALF_DTYPES.get(code.get("precision", ""))
    if dtype is not None:
        module = convert_tensors(module.to(dtype), dtype)
    function = torch.compile(module) if code["compile"] else module
    return _make_tensor_binder(function, returns=True), missing


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
        arguments = tuple(inputs) if returns else (*inputs, *outputs)

        def call(_stream: int) -> Any:
            result = function(*arguments)
            return result if returns else None

        return call

    return bind


def validate_outputs(result: Any, outputs: Sequence[torch.Tensor]) -> TensorTuple:
    """Return what a candidate returned as a tuple of ordinary tensors.

    Args:
        result: A tensor, or a tuple or list of tensors.
        outputs: The judge's output tensors, which fix number, shapes, dtypes and device.

    Raises:
        KernelError: A tensor subclass (it could compute later), or a mismatch.
    """
    tensors = tuple(result) if isinstance(result, tuple | list) else (result,)
    if len(tensors) != len(outputs):
        raise KernelError(f"it returned {len(tensors)} outputs, the kernel has {len(outputs)}")
    for tensor, output in zip(tensors, outputs, strict=True):
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise KernelError(f"it returned a {type(tensor).__name__}, not a torch.Tensor")
        for name in ("shape", "dtype", "device"):
            if getattr(tensor, name) != getattr(output, name):
                actual = _format_attribute(getattr(tensor, name))
                expected = _format_attribute(getattr(output, name))
                raise KernelError(f"it returned {name} {actual}, not {expected}")
    return tensors


def _format_attribute(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value).removeprefix("torch.")


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
