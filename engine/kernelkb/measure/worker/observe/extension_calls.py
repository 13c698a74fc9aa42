"""Observes functions of extension modules (pybind11, nanobind, plain C) through a wrapper."""

from __future__ import annotations

import functools
import types
from types import ModuleType
from typing import Any

from kernelkb.measure.worker.observe.modules import is_installed
from kernelkb.measure.worker.observe.operation_name import OperationName
from kernelkb.measure.worker.observe.recorder import Recorder, make_function


def wrap_extension(module: ModuleType, operation: OperationName, recorder: Recorder) -> None:
    """Replace the functions of a module that a name fits by ones that record their calls."""
    for name, value in list(vars(module).items()):
        is_function = callable(value) and not isinstance(value, (type, types.FunctionType))
        if is_function and operation.matches_function(module.__name__, name):
            setattr(module, name, _wrap(module, name, value, recorder))


def _wrap(module: ModuleType, name: str, called: Any, recorder: Recorder) -> Any:
    file = getattr(module, "__file__", None) or ""
    record = make_function(
        "extension", module.__name__, name, source_file=file, is_library=is_installed(file)
    )

    @functools.wraps(called)
    def call(*args: Any, **kwargs: Any) -> Any:
        if recorder.is_inside:
            return called(*args, **kwargs)
        positional = [(f"arg{at}", value) for at, value in enumerate(args)]
        begun, result, has_failed = recorder.begin(record, positional, kwargs), None, True
        try:
            result = called(*args, **kwargs)
            has_failed = False
        finally:
            recorder.end(begun, result, has_failed=has_failed)
        return result

    return call
