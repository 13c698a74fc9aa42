"""Reads and writes tensors as safetensors files: data without code, of every dtype that torch has.

Eight bytes with the length of a JSON header, the header, and the bytes of all tensors
(https://huggingface.co/docs/safetensors, read 2026-11-26).
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

_LENGTH_BYTES = 8
_ALIGNMENT = 8
_MAX_HEADER_BYTES = 100 * 2**20
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors of any strides and device; the file appears complete, by a rename.

    Raises:
        KeyError: A dtype that the format or a kernel.yaml has no name for.
    """
    header: dict[str, Any] = {}
    arrays = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    offset = 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        entry = {"dtype": _NAMES[array.dtype], "shape": list(array.shape)}
        header[name] = {**entry, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    scratch = path.with_suffix(".tmp")
    with scratch.open("wb") as file:
        file.write(len(text).to_bytes(_LENGTH_BYTES, "little"))
        file.write(text)
        for array in arrays.values():
            file.write(ctypes.string_at(array.data_ptr(), array.nbytes) if array.nbytes else b"")
    scratch.replace(path)


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, on the CPU, by name.

    Raises:
        ValueError: It is no safetensors file, or one that is cut off.
    """
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if len(data) < start or length > _MAX_HEADER_BYTES:
        raise ValueError(f"{path.name} is not a safetensors file, or it is cut off")
    try:
        header = json.loads(bytes(data[_LENGTH_BYTES:start]))
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        return {name: _read_entry(data, start, entry) for name, entry in entries.items()}
    except (KeyError, TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise ValueError(f"{path.name} is not a safetensors file: {error}") from error


def _read_entry(data: bytearray, start: int, entry: Mapping[str, Any]) -> torch.Tensor:
    dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
    first, last = entry["data_offsets"]
    if start + last > len(data) or first < 0:
        raise ValueError("it is cut off")
    if first == last:
        return torch.empty(shape, dtype=dtype)
    # A copy: elements may lie at addresses that are no multiple of their size.
    part = bytearray(data[start + first : start + last])
    return torch.frombuffer(part, dtype=dtype).reshape(shape)
