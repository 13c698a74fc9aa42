"""Hooks into a process of the user's program: when torch or Triton is imported, and at its end."""

from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelkb.measure.worker.observe.operation_name import OperationName, parse_operation
from kernelkb.measure.worker.observe.recorder import Recorder

_FIRST_PARTY_EXTENSIONS = ("torch", "numpy", "triton", "scipy", "pandas")
"""Packages whose own extension modules hold nothing that a user would name."""


def start_observer(job_file: Path) -> None:
    """Observe the operation that a job names, from the import of torch on."""
    job = json.loads(job_file.read_text(encoding="utf-8"))
    operation = parse_operation(job["operation"])
    recorder = Recorder(job, job_file.parent)
    sys.meta_path.insert(
        0,
        ImportHook(
            {
                "torch": lambda _: _observe_torch(operation, recorder),
                "triton": lambda module: _observe_triton(module, operation, recorder),
            }
        ),
    )
    _observe_extensions(operation, recorder)
    recorder.write()
    atexit.register(recorder.write)


class ImportHook:
    """Runs an action after a module was imported, once each."""

    def __init__(self, actions: dict[str, Callable[[ModuleType], None]]) -> None:
        self._actions = actions

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        """Return the specification that others find, with our action at the end of its loading."""
        action = self._actions.pop(name, None)
        if action is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_act(module: ModuleType) -> None:
            load(module)
            action(module)

        spec.loader.exec_module = load_and_act  # type: ignore[method-assign]  # of this one loader
        return spec


def _observe_torch(operation: OperationName, recorder: Recorder) -> None:
    from kernelkb.measure.worker.observe.python_calls import observe_python_functions
    from kernelkb.measure.worker.observe.torch_calls import observe_torch_calls

    observe_torch_calls(operation, recorder)
    if not operation.is_torch_operation:
        observe_python_functions(operation, recorder)


def _observe_triton(module: ModuleType, operation: OperationName, recorder: Recorder) -> None:
    from kernelkb.measure.worker.observe.triton_calls import observe_triton_kernels

    observe_triton_kernels(module, operation, recorder)


def _observe_extensions(operation: OperationName, recorder: Recorder) -> None:
    """Wrap functions of extension modules, as they are loaded: nothing else sees their calls."""
    load = ExtensionFileLoader.exec_module

    def load_and_wrap(loader: ExtensionFileLoader, module: ModuleType) -> None:
        load(loader, module)
        if module.__name__.partition(".")[0] not in _FIRST_PARTY_EXTENSIONS:
            from kernelkb.measure.worker.observe.extension_calls import wrap_extension

            wrap_extension(module, operation, recorder)

    ExtensionFileLoader.exec_module = load_and_wrap  # type: ignore[method-assign, assignment]
