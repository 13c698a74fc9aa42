"""Joins safetensors files of single calls into one, without reading the values.

Eight bytes with the length of a JSON header, the header, and the bytes of all tensors
(https://huggingface.co/docs/safetensors, read 2026-11-26).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_LENGTH_BYTES = 8
_ALIGNMENT = 8


def join_recorded_values(
    files: Mapping[str, bytes], input_names: Mapping[int, str], output_names: Sequence[str]
) -> bytes:
    """Return one file with ``workload/name`` for each array.

    Args:
        files: By workload, the content of an observer's file, with ``input.0`` and ``output.0``.
        input_names: By their place among the recorded tensors; others are left out.
        output_names: In the order of the outputs.
    """
    names = {f"input.{at}": name for at, name in input_names.items()}
    names |= {f"output.{at}": name for at, name in enumerate(output_names)}
    header: dict[str, Any] = {}
    bodies = []
    start = 0
    for workload, content in files.items():
        length = int.from_bytes(content[:_LENGTH_BYTES], "little")
        own = json.loads(content[_LENGTH_BYTES : _LENGTH_BYTES + length])
        body = content[_LENGTH_BYTES + length :]
        for key, entry in own.items():
            if key not in names:
                continue
            first, end = entry["data_offsets"]
            offsets = [start, start + end - first]
            header[f"{workload}/{names[key]}"] = {**entry, "data_offsets": offsets}
            bodies.append(body[first:end])
            start += end - first
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return b"".join([len(text).to_bytes(_LENGTH_BYTES, "little"), text, *bodies])
