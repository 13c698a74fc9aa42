"""Describes an object among the arguments of a call: a module of torch, or plain attributes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from kernelkb.measure.worker.observe.modules import is_installed, name_module

_MAX_TENSORS = 48
"""Of a module that is an argument: one with more is a whole model."""
_MODULE_FIELDS = frozenset(vars(torch.nn.Module())) - {"training"}

DescribeField = Callable[[str, Any], dict[str, Any]]


def is_describable(value: Any) -> bool:
    """Return whether an object can be made anew from its attributes.

    That holds for a module of few tensors, and for an object of plain attributes, such as a
    configuration.
    """
    if isinstance(value, type) or not hasattr(value, "__dict__") or callable(value):
        return isinstance(value, torch.nn.Module) and _count_tensors(value) <= _MAX_TENSORS
    return type(value).__module__ != "builtins"


def describe_object(value: Any, describe: DescribeField) -> dict[str, Any]:
    """Return the tree of an object; see ``ObservedCall.arguments``.

    Args:
        value: An object that ``is_describable``.
        describe: Describes an attribute, given a name for its tensors and its value.
    """
    if not isinstance(value, torch.nn.Module):
        plain = {name: describe(name, own) for name, own in vars(value).items()}
        return {"namespace": plain}
    own = {name: v for name, v in vars(value).items() if name not in _MODULE_FIELDS}
    parts = {**own, **value._parameters, **value._buffers, **value._modules}
    module = type(value)
    file = getattr(sys.modules.get(module.__module__), "__file__", None) or ""
    return {
        "module": {
            "class": f"{name_module(module.__module__)}:{module.__qualname__}",
            "is_library": is_installed(file),
            "fields": {name: describe(name, part) for name, part in parts.items()},
        }
    }


def _count_tensors(module: torch.nn.Module) -> int:
    return len(list(module.parameters())) + len(list(module.buffers()))
