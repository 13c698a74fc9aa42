"""Chooses grid and block of a kernel whose file shows no launch, from its indices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelkb.loading.kernel_files import FILL_IN_MARK
from kernelkb.scaffold.c.array_shapes import ROWS, KernelIndices, read_indices
from kernelkb.scaffold.c.syntax import Declaration, get_text
from kernelkb.scaffold.draft.call_signature import Function

if TYPE_CHECKING:
    from kernelkb.scaffold.c.source_facts import SourceFacts

_DEFAULT_THREADS = 256
"""Threads per block of a guessed launch: at most the launch bound, and allowed on every GPU."""
_TILE = 16
DEFAULT_SHARED_BYTES = "49152"
"""Dynamic shared memory where the text does not say: the most that a launch gets unasked."""
_INDEX = re.compile(r"(?:thread|block)Idx\.([xyz])")


def choose_configuration(
    function: Function, own: Declaration, facts: SourceFacts, axes: Sequence[str]
) -> tuple[str, ...]:
    """Return grid, block and shared memory as C expressions, by the indices of a kernel."""
    sizes = [p.name for p in function.parameters if p.role == "size"]
    constants = [name for name, text in facts.constants.items() if text.isdecimal()]
    if own.body is None:
        return ()
    indices = read_indices(own.body, [*sizes, *constants])
    used = {m[1] for m in _INDEX.finditer(get_text(own.body))}
    threads = _choose_block(function, used, get_text(own.body))
    blocks = []
    for place, axis in enumerate("xyz"):
        extent = _find_extent(axis, own, indices)
        if extent is not None and extent[0] == ROWS and ROWS not in axes:
            extent = None
        if axis not in used:
            blocks.append("1")
        elif extent is None:  # the innermost axis along x, as most kernels have it
            name = axes[-1 - place] if place < len(axes) else "1"
            blocks.append(_divide(name, threads[place]) if place < len(axes) else "1")
        else:
            name, per_block = extent
            blocks.append(_divide(name, per_block or threads[place]))
    shared = DEFAULT_SHARED_BYTES if function.takes_shared_memory else "0"
    return f"dim3({', '.join(blocks)})", f"dim3({', '.join(threads)})", shared


def choose_threads(function: Function, own: Declaration) -> str:
    """Return threads per block along x, where neither launch nor indices say."""
    body = get_text(own.body)
    return _choose_block(function, {m[1] for m in _INDEX.finditer(body)}, body)[0]


def _choose_block(function: Function, used: set[str], body: str) -> tuple[str, ...]:
    if "z" in used:
        return "8", "8", "4"
    if "y" in used:
        return str(_TILE), str(_TILE), "1"
    bound = function.max_threads
    if bound is None and "__shfl" in body and "__shared__" not in body:
        return "32", "1", "1"  # its threads meet in a warp only
    if bound is None or bound.isdecimal():
        return str(min(_DEFAULT_THREADS, int(bound or _DEFAULT_THREADS))), "1", "1"
    names = function.template
    is_fixed = not (names and re.search(rf"\b(?:{'|'.join(names)})\b", bound))
    is_known = is_fixed and FILL_IN_MARK not in bound
    return (bound if is_known else str(_DEFAULT_THREADS), "1", "1")


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
