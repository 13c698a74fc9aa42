"""What a call depends on beside its arguments: torch's autocast, and plain globals of its file."""

from __future__ import annotations

import argparse
import math
import sys
import types
from collections.abc import Mapping
from typing import Any

_DEVICE_TYPES = ("cuda", "cpu")
_MAX_TEXT_LENGTH = 1000
_MAX_ITEMS = 64
_MAX_DEPTH = 3


def read_autocast() -> dict[str, str]:
    """Return the dtype of ``torch.autocast`` for each kind of device where it is enabled."""
    torch = sys.modules["torch"]
    found = {}
    for device in _DEVICE_TYPES:
        try:
            if torch.is_autocast_enabled(device):
                found[device] = torch.get_autocast_dtype(device)
        except TypeError:  # torch before 2.4
            own = {"cuda": ("is_autocast_enabled", "get_autocast_gpu_dtype")}.get(
                device, ("is_autocast_cpu_enabled", "get_autocast_cpu_dtype")
            )
            if getattr(torch, own[0])():
                found[device] = getattr(torch, own[1])()
    return {device: str(dtype).removeprefix("torch.") for device, dtype in found.items()}


def write_plain_globals(namespace: Mapping[str, Any]) -> dict[str, str]:
    """Return the code of each global that is plain: numbers, text, dtypes, and lists of them."""
    codes = {
        name: write_plain(value)
        for name, value in list(namespace.items())
        if not name.startswith("__")
    }
    return {name: code for name, code in codes.items() if code}


def write_plain(value: Any, depth: int = 0) -> str:
    """Return a value as code; empty for one that no short code makes."""
    if value is None or isinstance(value, bool) or type(value) is int:
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if type(value) is str:
        return repr(value) if len(value) <= _MAX_TEXT_LENGTH else ""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.dtype):
        return str(value)
    if torch is not None and isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, (argparse.Namespace, types.SimpleNamespace)):
        fields = {name: write_plain(own, depth + 1) for name, own in vars(value).items()}
        known = [f"{name}={code}" for name, code in fields.items() if code and name.isidentifier()]
        return f"types.SimpleNamespace({', '.join(known)})" if depth < _MAX_DEPTH else ""
    return _write_items(value, depth)


def _write_items(value: Any, depth: int) -> str:
    if type(value) not in (list, tuple, dict) or len(value) > _MAX_ITEMS or depth >= _MAX_DEPTH:
        return ""
    if isinstance(value, dict):
        pairs = [(write_plain(k, depth + 1), write_plain(v, depth + 1)) for k, v in value.items()]
        if not all(key and own for key, own in pairs):
            return ""
        return "{" + ", ".join(f"{key}: {own}" for key, own in pairs) + "}"
    items = [write_plain(item, depth + 1) for item in value]
    if not all(items):
        return ""
    if isinstance(value, list):
        return f"[{', '.join(items)}]"
    return f"({', '.join(items)}{',' * (len(items) == 1)})"
