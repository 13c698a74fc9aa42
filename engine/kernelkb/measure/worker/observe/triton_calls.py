"""Observes launches of Triton kernels, compiled or interpreted (``TRITON_INTERPRET=1``)."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

from kernelkb.measure.worker.observe.modules import is_installed, name_module
from kernelkb.measure.worker.observe.operation_name import OperationName
from kernelkb.measure.worker.observe.recorder import Recorder, make_function

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def observe_triton_kernels(
    module: ModuleType, operation: OperationName, recorder: Recorder
) -> None:
    """Record the launches of a kernel from here on; not those by which an autotuner chooses."""
    _wrap_run(module.runtime.jit.JITFunction, operation, recorder)
    _wrap_trials(module.runtime.autotuner.Autotuner, operation, recorder)
    if os.environ.get("TRITON_INTERPRET") == "1":
        from triton.runtime.interpreter import InterpretedFunction

        _wrap_run(InterpretedFunction, operation, recorder)


def _wrap_trials(tuner_class: Any, operation: OperationName, recorder: Recorder) -> None:
    try_config, run = tuner_class._bench, tuner_class.run

    def try_unrecorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        with recorder.pause():
            return try_config(self, *args, **kwargs)

    def run_with_copies(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not operation.path.endswith(self.base_fn.__name__):
            return run(self, *args, **kwargs)
        passed = (*args, *kwargs.values())
        with recorder.hold([value for value in passed if hasattr(value, "nbytes")]):
            return run(self, *args, **kwargs)

    tuner_class._bench, tuner_class.run = try_unrecorded, run_with_copies


def _wrap_run(jit_class: Any, operation: OperationName, recorder: Recorder) -> None:
    run = jit_class.run

    def run_and_record(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = self.fn
        module = name_module(function.__module__)
        if not kwargs.get("warmup", False):
            recorder.note_seen(f"{module}:{function.__name__}")
            recorder.note_kernel(function.__name__)
        is_meant = operation.matches_function(module, function.__qualname__)
        if recorder.is_inside or kwargs.get("warmup", False) or not is_meant:
            return run(self, *args, **kwargs)
        file = function.__code__.co_filename
        record = make_function(
            "triton",
            module,
            function.__qualname__,
            source_file=file,
            is_library=is_installed(file),
            kernels=[function.__name__],
        )
        values, launch = _describe_launch(self, args, kwargs)
        begun, has_failed = recorder.begin(record, [], values, launch), True
        try:
            result = run(self, *args, **kwargs)
            has_failed = False
        finally:
            recorder.end(begun, None, has_failed=has_failed)
        return result

    jit_class.run = run_and_record


def _describe_launch(
    kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments by name, and the launch: grid, options and constants."""
    names = list(getattr(kernel, "arg_names", ()))
    passed = dict(zip(names, args, strict=False))
    passed |= {name: value for name, value in kwargs.items() if name in names}
    grid = kwargs.get("grid", ())
    if callable(grid):
        grid = grid({**passed, **kwargs})
    grid = grid if isinstance(grid, (tuple, list)) else (grid,)
    kinds = inspect.get_annotations(kernel.fn)
    codes = {
        name: _write_constant(value)
        for name, value in passed.items()
        if "constexpr" in str(kinds.get(name, ""))
    }
    constants = {name: code for name, code in codes.items() if code}
    launch = {
        "grid": [int(size) for size in grid],
        "options": {name: kwargs[name] for name in _OPTIONS if name in kwargs},
        "constants": constants,
    }
    return {name: value for name, value in passed.items() if name not in constants}, launch


def _write_constant(value: Any) -> str:
    """Return a ``tl.constexpr`` argument as code; empty for an object that no code makes."""
    value = getattr(value, "value", value)  # of a tl.constexpr
    if isinstance(value, (bool, int, float, str, type(None))):
        return repr(value)
    if hasattr(value, "primitive_bitwidth"):  # a dtype of the language
        names = vars(sys.modules["triton.language"]).items()
        return next((f"triton.language.{name}" for name, own in names if own is value), "")
    if isinstance(getattr(value, "fn", None), FunctionType):  # a function for the device
        return str(value.fn.__name__)
    return ""
