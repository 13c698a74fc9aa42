"""What a name of a module stands for, where the code behind it has another name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from kernelkb.measure.worker.observe.names import OperationName, is_own, name_module

_MAX_DEPTH = 8
"""Of wrappers around wrappers."""
_WRAPPED = ("__wrapped__", "_torchdynamo_orig_callable", "func")
"""Attributes under which ``functools.wraps``, ``torch.compile`` and ``partial`` keep a function."""


def find_alias(operation: OperationName, code: CodeType) -> str:
    """Return ``module:name`` of a module's variable that is asked for and calls a code.

    Such as ``my_op = MyFunction.apply``, ``my_op = functools.partial(f, eps=1e-5)``,
    ``my_op = MyModule()`` and ``my_op = lambda x: ...``. Empty where there is none.
    """
    if operation.is_torch_operation:
        return ""
    for module, name, value in _iter_named(operation):
        if any(reached is code for reached in _iter_codes(value, operation.last)):
            return f"{name_module(module)}:{name}"
    return ""


def _iter_named(operation: OperationName) -> Iterator[tuple[str, str, Any]]:
    """Yield each variable that is asked for, with its module; of a bare name the program's own."""
    for module_name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType):
            continue
        own = vars(module)
        if operation.last not in own or not (operation.module or _is_program(own)):
            continue
        if operation.matches_function(name_module(module_name), operation.last):
            yield module_name, operation.last, own[operation.last]


def _is_program(own: dict[str, Any]) -> bool:
    file = own.get("__file__")
    return isinstance(file, str) and is_own(file)


def _iter_codes(value: Any, name: str) -> Iterator[CodeType]:
    """Yield the codes that a call of an object runs as what it stands for."""
    for _ in range(_MAX_DEPTH):
        if isinstance(value, FunctionType) and not _is_decorated(value, name):
            yield value.__code__
        if isinstance(value, MethodType):
            owner: Any = value.__self__
            is_apply = isinstance(owner, type) and value.__name__ == "apply"
            value = getattr(owner, "forward", value.__func__) if is_apply else value.__func__
            continue
        forward = getattr(type(value), "forward", None)
        if isinstance(forward, FunctionType):  # a module of torch
            yield forward.__code__
        inner = next(
            (vars(value)[n] for n in _WRAPPED if n in getattr(value, "__dict__", {})), None
        )
        if isinstance(value, functools.partial):
            inner = value.func
        if inner is None:
            return
        value = inner


def _is_decorated(function: FunctionType, name: str) -> bool:
    """Return whether a function wraps one of this name, whose own calls are seen."""
    if "__wrapped__" in vars(function):
        return True
    contents = []
    for cell in function.__closure__ or ():
        try:
            contents.append(cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    return any(getattr(content, "__name__", "") == name for content in contents)
