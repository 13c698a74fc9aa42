"""Imports Python files by path: references and tasks (judge), candidates (runner)."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch


def create_module(file: str, entry: str, task_file: str, seed: int) -> Any:
    """Create a ``torch.nn.Module`` of a KernelBench-style task, on the CPU, in training mode.

    Args:
        file: The file that defines the class.
        entry: The name of the class.
        task_file: The file whose ``get_init_inputs`` returns the constructor's arguments.
        seed: Seeds torch before the constructor draws its weights.
    """
    arguments = import_python_file(task_file).get_init_inputs()
    named: dict[str, Any] = {}
    if len(arguments) == 2 and isinstance(arguments[0], list) and isinstance(arguments[1], dict):
        arguments, named = arguments
    torch.manual_seed(seed)
    return getattr(import_python_file(file), entry)(*arguments, **named)


@cache
def import_python_file(path: str) -> ModuleType:
    """Run a Python file once and return its module; its folder is appended to ``sys.path``.

    The module is registered in ``sys.modules``: Triton reads a kernel's source through it later.
    """
    folder = str(Path(path).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    return import_from_spec(
        importlib.util.spec_from_file_location(f"kernel_{Path(path).stem}", path), path
    )


def import_from_spec(spec: ModuleSpec | None, path: str) -> ModuleType:
    """Create, register and run the module of an import specification.

    Raises:
        ImportError: There is no loader for a file of that name.
    """
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is neither a Python file nor an extension module")
    writes_elsewhere = sys.pycache_prefix is not None and not sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # no .pyc is left in the user's folder, and none is stale
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = not writes_elsewhere  # what torch.compile imports later is kept
    return module
