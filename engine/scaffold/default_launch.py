"""Chooses grid and block of a kernel whose file shows no launch, from its indices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelkb.scaffold.array_shapes import ROWS, KernelIndices, read_indices
from kernelkb.scaffold.c_declarations import Declaration, get_text
from kernelkb.scaffold.call_signature import Function

if TYPE_CHECKING:
    from kernelkb.scaffold.source_facts import SourceFacts

_DEFAULT_THREADS = 256
"""Threads per block of a guessed launch: at most the launch bound, and allowed on every GPU."""
_TILE = 16
_INDEX = re.compile(r"(?:thread|block)Idx\.([xyz])")


def choose_configuration(
    function: Function, own: Declaration, facts: SourceFacts, axes: Sequence[str]
) -> tuple[str, ...]:
    """Return grid, block and shared memory as C expressions; empty where nothing shows them."""
    if own.body is None or function.takes_shared_memory:
        return ()
    sizes = [p.name for p in function.parameters if p.role == "size"]
    constants = [name for name, text in facts.constants.items() if text.isdecimal()]
    indices = read_indices(own.body, [*sizes, *constants])
    used = {m[1] for m in _INDEX.finditer(get_text(own.body))}
    threads = _choose_threads(function, used, get_text(own.body))
    if threads is None:
        return ()
    blocks = []
    for axis in "xyz":
        extent = _find_extent(axis, own, indices)
        if extent is not None and extent[0] == ROWS and ROWS not in axes:
            extent = None
        if axis not in used:
            blocks.append("1")
        elif extent is None:
            if len(axes) > 1 or axis != "x":
                return ()
            blocks.append(_divide(axes[0], threads[0]) if axes else "1")
        else:
            name, per_block = extent
            blocks.append(_divide(name, per_block or threads["xyz".index(axis)]))
    return f"dim3({', '.join(blocks)})", f"dim3({', '.join(threads)})", "0"


def _choose_threads(function: Function, used: set[str], body: str) -> tuple[str, ...] | None:
    if "z" in used:
        return None
    if "y" in used:
        return str(_TILE), str(_TILE), "1"
    bound = function.max_threads
    if bound is None and "__shfl" in body and "__shared__" not in body:
        return "32", "1", "1"  # its threads meet in a warp only
    if bound is None or bound.isdecimal():
        return str(min(_DEFAULT_THREADS, int(bound or _DEFAULT_THREADS))), "1", "1"
    return (
        None
        if re.search(rf"\b(?:{'|'.join(function.template)})\b", bound or "") and (function.template)
        else (bound, "1", "1")
    )


def _divide(size: str, per_block: str) -> str:
    if per_block == "1":
        return f"static_cast<unsigned>({size})"
    return f"static_cast<unsigned>(({size} + {per_block} - 1) / {per_block})"


def _find_extent(axis: str, own: Declaration, indices: KernelIndices) -> tuple[str, str] | None:
    """Return the size that an axis of the grid covers, and elements per block if it says so."""
    block, thread = f"blockIdx.{axis}", f"threadIdx.{axis}"
    for name, value in indices.values.items():
        text = re.sub(r"\s", "", get_text(value))
        if block in text and thread in text and name in indices.bounds:
            tile = re.search(
                rf"{re.escape(block)}\*(\w+)(?!\.)\b|\b(\w+)\*{re.escape(block)}", text
            )
            per_block = (tile[1] or tile[2]) if tile else ""
            return indices.bounds[name], "" if per_block == "blockDim" else per_block
    for name, value in indices.values.items():
        text = re.sub(r"\s", "", get_text(value))
        if text == block:
            return indices.bounds.get(name, ROWS), "1"
    body = re.sub(r"\s", "", get_text(own.body))
    is_scaled = f"{block}*blockDim" in body or f"blockDim.{axis}*{block}" in body
    return (ROWS, "1") if block in body and not is_scaled else None
