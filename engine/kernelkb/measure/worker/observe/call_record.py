"""Describes one call: its tensors, its numbers, and how the other arguments are written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kernelkb.measure.worker.observe.object_record import describe_object, is_describable
from kernelkb.measure.worker.observe.values import describe_values
from kernelkb.measure.worker.shared.messages.observed import (
    ObservedCall,
    ObservedNumber,
    ObservedTensor,
)

_MAX_DEPTH = 6
_MAX_ITEMS = 64
"""Of a list among the arguments: longer ones are data."""
_MAX_TEXT_LENGTH = 200
_TORCH_VALUES = (torch.dtype, torch.layout, torch.memory_format, torch.device)


class UnsupportedCall(Exception):
    """A call that cannot be recorded; the text says why."""


class CallDescription:
    """The arguments of one call, as they are before it.

    Attributes:
        tensors: All tensors among the arguments, in order, each once.
        arguments: See ``ObservedCall``.
        signature: Equal for calls with the same shapes, strides, dtypes and other arguments.
    """

    def __init__(
        self, positional: Sequence[tuple[str, Any]], named: Mapping[str, Any], launch: Any = None
    ) -> None:
        """Describe a call.

        Args:
            positional: Names and values of the arguments that are passed by position.
            named: Those passed by name.
            launch: Of a Triton kernel: what is kept beside the arguments.
        """
        self.tensors: list[torch.Tensor] = []
        self._names: list[str] = []
        self.numbers: list[ObservedNumber] = []
        self.launch = launch
        self.arguments = {
            "positional": [self._describe(name, value, 0) for name, value in positional],
            "named": {name: self._describe(name, value, 0) for name, value in named.items()},
        }
        layouts = [
            (list(t.shape), list(t.stride()), str(t.dtype), t.device.type) for t in self.tensors
        ]
        self.signature = repr((layouts, self.numbers, self.arguments, launch))
        self.versions = [_read_version(tensor) for tensor in self.tensors]

    def _describe(self, name: str, value: Any, depth: int) -> dict[str, Any]:
        if isinstance(value, torch.Tensor):
            return {"tensor": self._add_tensor(name, value)}
        if isinstance(value, (bool, str, type(None))):
            return _describe_literal(value)
        if isinstance(value, (int, float)):
            if depth:
                return {"code": repr(value), "integer": isinstance(value, int)}
            self.numbers.append({"name": name, "value": value})
            return {"number": len(self.numbers) - 1}
        if isinstance(value, _TORCH_VALUES):
            return {"code": _write_torch_value(value)}
        if isinstance(value, (list, tuple)) and len(value) <= _MAX_ITEMS and depth < _MAX_DEPTH:
            kind = "tuple" if isinstance(value, tuple) else "list"
            items = enumerate(value)
            return {kind: [self._describe(f"{name}_{i}", item, depth + 1) for i, item in items]}
        if isinstance(value, torch.autograd.function.FunctionCtx):
            return {"context": True}
        if depth < _MAX_DEPTH and is_describable(value):
            prefix = "" if name == "self" else f"{name}_"
            return describe_object(
                value, lambda key, own: self._describe(f"{prefix}{key}", own, depth + 1)
            )
        return {"object": type(value).__name__}

    def _add_tensor(self, name: str, tensor: torch.Tensor) -> int:
        for at, known in enumerate(self.tensors):
            if known is tensor:
                return at
        self.tensors.append(tensor)
        self._names.append(name)
        return len(self.tensors) - 1

    def make_call(self) -> ObservedCall:
        """Return its record, without outputs: they are not known yet.

        Raises:
            UnsupportedCall: There is no tensor, or one without values in memory.
        """
        if not self.tensors:
            raise UnsupportedCall("it has no tensor among its arguments")
        return {
            "count": 0,
            "tensors": list(map(describe_tensor, self._names, self.tensors)),
            "numbers": self.numbers,
            "arguments": self.arguments,
            "outputs": [],
            "changed": [],
            "launch": self.launch,
            "file": None,
        }

    def find_changed(self, copies: Sequence[torch.Tensor] | None) -> list[int]:
        """Return which tensors the call changed: by torch's count of changes, or by their values.

        Args:
            copies: Of the tensors before the call; None where they were too large.
        """
        changed = []
        for at, tensor in enumerate(self.tensors):
            is_changed = _read_version(tensor) != self.versions[at]
            if not is_changed and copies is not None:
                is_changed = not _has_same_bits(tensor, copies[at])
            if is_changed:
                changed.append(at)
        return changed


def describe_tensor(name: str, tensor: torch.Tensor) -> ObservedTensor:
    """Return shape, layout and recipe of a tensor.

    Raises:
        UnsupportedCall: It is sparse, nested, complex or on another kind of device.
    """
    if tensor.layout != torch.strided or tensor.is_complex() or tensor.is_quantized:
        raise UnsupportedCall(f"{name} is not a dense tensor of real numbers")
    if tensor.device.type not in ("cpu", "cuda"):
        raise UnsupportedCall(f"{name} is on the device {tensor.device.type}")
    return {
        "name": name,
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "device": tensor.device.type,
        "recipe": describe_values(tensor),
    }


def list_tensors(result: Any) -> list[torch.Tensor]:
    """Return the tensors in what a call returned, in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        return [tensor for value in result.values() for tensor in list_tensors(value)]
    if isinstance(result, (list, tuple)):
        return [tensor for value in result for tensor in list_tensors(value)]
    return []


def _describe_literal(value: bool | str | None) -> dict[str, Any]:
    if isinstance(value, str) and len(value) > _MAX_TEXT_LENGTH:
        return {"object": "str"}
    return {"code": repr(value)}


def _write_torch_value(value: Any) -> str:
    if isinstance(value, torch.device):
        return f"torch.device({value.type!r})"
    return re.sub(r"[^\w.]", "", str(value))


def _read_version(tensor: torch.Tensor) -> int:
    """Return how often torch changed a tensor; −1 where it does not count that."""
    try:
        return int(tensor._version)
    except RuntimeError:  # of inference mode
        return -1


def _has_same_bits(tensor: torch.Tensor, copy: torch.Tensor) -> bool:
    return bool(torch.equal(tensor.detach().cpu().nan_to_num(), copy.nan_to_num()))
