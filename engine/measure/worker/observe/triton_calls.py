"""Observes launches of Triton kernels, compiled or interpreted (``TRITON_INTERPRET=1``)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from kernelkb.measure.worker.observe.operation_name import OperationName
from kernelkb.measure.worker.observe.recorder import (
    Recorder,
    is_installed,
    make_function,
    name_module,
)

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def observe_triton_kernels(
    module: ModuleType, operation: OperationName, recorder: Recorder
) -> None:
    """Record the launches of a kernel from here on."""
    _wrap_run(module.runtime.jit.JITFunction, operation, recorder)
    if os.environ.get("TRITON_INTERPRET") == "1":
        from triton.runtime.interpreter import InterpretedFunction

        _wrap_run(InterpretedFunction, operation, recorder)


def _wrap_run(jit_class: Any, operation: OperationName, recorder: Recorder) -> None:
    run = jit_class.run

    def run_and_record(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = self.fn
        module = name_module(function.__module__)
        is_warmup = kwargs.get("warmup", False)
        recorder.note_seen(f"{module}:{function.__name__}")
        is_meant = operation.matches_function(module, function.__qualname__)
        if recorder.is_inside or is_warmup or not is_meant:
            return run(self, *args, **kwargs)
        file = function.__code__.co_filename
        record = make_function(
            "triton",
            module,
            function.__qualname__,
            source_file=file,
            is_library=is_installed(file),
        )
        positional, named = _bind(self, args, kwargs)
        launch = _describe_launch(self, args, kwargs)
        begun, has_failed = recorder.begin(record, positional, named, launch), True
        try:
            result = run(self, *args, **kwargs)
            has_failed = False
        finally:
            recorder.end(begun, None, has_failed=has_failed)
        return result

    jit_class.run = run_and_record


def _bind(
    kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """Return the kernel's arguments by position and by name, without options of the launch."""
    names = list(getattr(kernel, "arg_names", ()))
    named = {name: value for name, value in kwargs.items() if name in names}
    return list(zip(names, args, strict=False)), named


def _describe_launch(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the grid, as three numbers, and the options of a launch."""
    grid = kwargs.get("grid", ())
    if callable(grid):
        names = list(getattr(kernel, "arg_names", ()))
        grid = grid({**dict(zip(names, args, strict=False)), **kwargs})
    grid = grid if isinstance(grid, (tuple, list)) else (grid,)
    options = {name: kwargs[name] for name in _OPTIONS if name in kwargs}
    return {"grid": [int(size) for size in grid], "options": options}
