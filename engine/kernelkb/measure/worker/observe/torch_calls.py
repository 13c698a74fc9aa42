"""Observes operations of torch: functions of its Python interface, and those of its dispatcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from kernelkb.measure.worker.observe.names import OperationName
from kernelkb.measure.worker.observe.recorder import Recorder, make_function


def observe_torch_calls(operation: OperationName, recorder: Recorder) -> None:
    """Observe the operations of this thread from here on, with backward passes on a CPU.

    Those of the dispatcher only where they may be meant: that imports sympy, which takes seconds.
    """
    if not operation.is_torch_operation:
        _enter(_FunctionMode(operation, recorder), recorder)
    if operation.is_torch_operation or operation.is_bare:
        _enter(_DispatchMode(operation, recorder), recorder)


def _enter(mode: Any, recorder: Recorder) -> None:
    mode.__enter__()
    recorder.at_end(lambda: mode.__exit__(None, None, None))


class _Observed:
    """Which operation is asked for, and who records its calls: first base of a mode of torch."""

    def __init__(self, operation: OperationName, recorder: Recorder) -> None:
        super().__init__()
        self._operation, self._recorder = operation, recorder


class _FunctionMode(_Observed, TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it
    """Sees ``torch.softmax`` and ``torch.Tensor.softmax``, as the program calls them."""

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one function; record it where it is asked for."""
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        is_meant = name == self._operation.last and not self._recorder.is_inside
        path = _find_path(func) if is_meant else ""
        module, _, qualname = path.rpartition(".")
        if not path or not self._operation.matches_function(module, qualname):
            return func(*args, **named)
        record = make_function("torch-function", module, qualname, name=path, is_library=True)
        positional = [("x" if at == 0 else f"arg{at}", arg) for at, arg in enumerate(args)]
        return _call(self._recorder, record, func, positional, args, named)


def _find_path(func: Any) -> str:
    """Return the public name of a function of torch; empty for operations of the dispatcher."""
    if isinstance(func, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return ""
    return resolve_name(func) or ""


class _DispatchMode(_Observed, TorchDispatchMode):  # type: ignore[misc]  # torch has no types for it
    """Sees the operations that run in the end, such as ``aten::_softmax`` and ``mylib::my_op``."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one operation; record it where it is asked for."""
        named = dict(kwargs or {})
        namespace, _, name = func._schema.name.partition("::")
        overload = func._schema.overload_name or "default"
        if not self._recorder.is_inside:
            self._recorder.note_seen(func._schema.name)
        is_meant = self._operation.matches_operation(namespace, name, overload)
        if self._recorder.is_inside or not is_meant:
            return func(*args, **named)
        record = make_function(
            "torch-operation",
            namespace,
            name,
            name=f"{namespace}::{name}.{overload}",
            overload=overload,
            is_library=namespace in ("aten", "prims", "quantized"),
            source_file=_find_python_source(namespace, name),
        )
        names = [argument.name for argument in func._schema.arguments]
        return _call(
            self._recorder, record, func, list(zip(names, args, strict=False)), args, named
        )


def _find_python_source(namespace: str, name: str) -> str | None:
    """Return ``file:function`` of an operation made by ``torch.library.custom_op``."""
    definitions = getattr(getattr(torch, "_library", None), "custom_ops", None)
    definition = getattr(definitions, "OPDEFS", {}).get(f"{namespace}::{name}")
    function: Any = getattr(definition, "_init_fn", None)
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{function.__qualname__}" if code is not None else None


def _call(
    recorder: Recorder,
    record: Any,
    func: Any,
    positional: Sequence[tuple[str, Any]],
    args: Sequence[Any],
    named: Mapping[str, Any],
) -> Any:
    begun, result, has_failed = recorder.begin(record, positional, named), None, True
    try:
        result = func(*args, **named)
        has_failed = False
    finally:
        recorder.end(begun, result, has_failed=has_failed)
    return result
