"""Finds the changed input for which the reference gives a wrong output.

An operand read transposed, late by a tile, with a part left out of sums, rounded to another type.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import torch

from kernelkb.measure.worker.judge.compare.steps import SafeSteps, UnsafeStepError
from kernelkb.measure.worker.judge.compare.wrong_values import (
    FEW,
    SURE,
    TILES,
    TWO_AXES,
    SearchLimit,
    ToldCause,
    WrongOutput,
    WrongSample,
    draw_fine,
    ravel,
)

_TRIED = 64
_LEAST_ROUNDED = 16
_NOT_TAKEN = (
    *(UnsafeStepError, RuntimeError, ValueError, IndexError, TypeError),
    *(ArithmeticError, AssertionError),
)
_EXACT = 0.5
"""Of the error that may be: a change of the inputs that leaves less is looked no further for."""


def find_changed_input(
    given: WrongOutput, sample: WrongSample, limit: SearchLimit
) -> ToldCause | None:
    """Return the changed input for which the reference gives the wrong values; None: none tried."""
    if given.rerun is None or len(sample.got) < FEW:
        return None
    at = ravel(sample.where, sample.shape)
    own = (sample.got - sample.right).abs()
    luck = float((2 * sample.allowed / own.clamp(min=1e-300)).clamp(max=1.0).median())
    size = float(own[own.isfinite()].square().mean().sqrt()) if bool(own.isfinite().any()) else 0.0
    allowed = float(sample.allowed.square().mean().sqrt())
    fine = draw_fine(given, sample)
    best: tuple[tuple[bool, float], str] | None = None
    for text, inputs, is_rounded in _iter_changes(given):
        if limit.is_over():
            break
        try:
            with SafeSteps():
                found = given.rerun(inputs).reshape(-1)
        except _NOT_TAKEN:
            continue  # the reference does not take it
        error = (found[at].double() - sample.got).abs()
        left = float(error.square().mean().sqrt())
        holds = float((error <= 2 * sample.allowed).double().mean()) >= SURE
        is_rounding = is_rounded and len(own) >= _LEAST_ROUNDED and left < 0.2 * size
        if not is_rounding and not (holds and _TRIED * max(luck, 1e-6) ** len(own) < 0.05):
            continue
        rank = not fine.is_kept(found), 0.0 if left < _EXACT * allowed else left
        if best is None or rank < best[0]:
            best = rank, f"as if {text}{_tell_addend(given, inputs, sample)}"
        if rank == (False, 0.0):
            break
    return ToldCause(best[1], not best[0][0]) if best else None


def _tell_addend(given: WrongOutput, inputs: Sequence[torch.Tensor], sample: WrongSample) -> str:
    """Say that an input that seems to be zero is one that is added, element by element."""
    for (_, tensor), changed in zip(given.inputs, inputs, strict=True):
        if changed is not tensor and not bool(changed.any()):
            wide = tensor.numel() == len(sample.flat)
            at = ravel(sample.where, sample.shape) if wide else sample.where[:, -1]
            if not wide and (tensor.dim() != 1 or len(tensor) != sample.shape[-1]):
                return ""
            lost = sample.right - sample.got
            near = (tensor.reshape(-1)[at].double() - lost).abs() <= 2 * sample.allowed
            return ": it is not added" if float(near.double().mean()) >= SURE else ""
    return ""


class _InputChange(NamedTuple):
    """Inputs of which some are changed."""

    says: str
    """What was done to them."""
    inputs: list[torch.Tensor]
    """All of them."""
    is_rounded: bool = False


def _iter_changes(given: WrongOutput) -> Iterator[_InputChange]:
    """Yield inputs that were exchanged, changed by themselves, or rounded."""
    tensors = [tensor for _, tensor in given.inputs]
    floats = [at for at, tensor in enumerate(tensors) if tensor.is_floating_point()]

    def put(at: int, tensor: torch.Tensor) -> list[torch.Tensor]:
        return [tensor if at == other else one for other, one in enumerate(tensors)]

    for left in floats:
        for right in floats:
            one, two = given.inputs[left], given.inputs[right]
            if left < right and one[1].shape == two[1].shape and one[1].dtype == two[1].dtype:
                both = put(left, two[1])
                both[right] = one[1]
                yield _InputChange(f"{one[0]} and {two[0]} were exchanged", both)
                yield _InputChange(f"{two[0]} were {one[0]}", put(right, one[1]))
    for at in floats:
        for text, tensor in _iter_own_changes(*given.inputs[at]):
            yield _InputChange(text, put(at, tensor))
    for at in range(len(tensors)):
        if at not in floats:
            for text, tensor in _iter_index_changes(*given.inputs[at]):
                yield _InputChange(text, put(at, tensor))
    for told, rounded in _iter_rounded(tensors):
        yield _InputChange(f"all inputs were rounded to {told}", rounded, is_rounded=True)
    for make_changes in (_iter_parts, _iter_moved, _iter_swizzled, _iter_strides):
        for at in floats:
            for text, tensor in make_changes(*given.inputs[at]):
                yield _InputChange(text, put(at, tensor))


def _iter_rounded(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Yield the name of a narrower type, and all inputs rounded to it."""
    for name, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        yield (
            name,
            [one.to(dtype).to(one.dtype) if one.is_floating_point() else one for one in tensors],
        )
    for half, told in ((0x1000, ""), (0, ", by cutting off")):
        yield f"TF32{told}", [_round_to_tf32(one, half) for one in tensors]


def _round_to_tf32(tensor: torch.Tensor, half: int) -> torch.Tensor:
    if tensor.dtype != torch.float32:
        return tensor
    return ((tensor.view(torch.int32) + half) & ~0x1FFF).view(torch.float32)


def iter_input_changes(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield an operand as mistakes read it, in words that begin with its name."""
    yield from _iter_own_changes(name, tensor)
    yield from _iter_parts(name, tensor)


def _iter_own_changes(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield one input changed as a whole, and how, in words."""
    yield f"{name} were zero", torch.zeros_like(tensor)
    yield f"{name} were one", torch.ones_like(tensor)
    yield f"{name} had the other sign", -tensor
    dims = tensor.dim()
    if dims >= 2:
        rows, columns = tensor.shape[-2:]
        if rows > 1 and columns > 1:
            turned = tensor.mT.reshape(tensor.shape)
            told = "transposed" if rows == columns else "read by columns instead of rows"
            yield f"{name} were {told}", turned
            back = tensor.reshape(*tensor.shape[:-2], columns, rows).mT.contiguous()
            if rows != columns:
                yield f"{name} were read by columns instead of rows", back
    for tile in (tile for tile in TILES[2:6] if dims >= 2):
        if tensor.shape[-1] % tile == 0 and tensor.shape[-2] % tile == 0:
            cut = tensor.unflatten(-1, (-1, tile)).unflatten(-3, (-1, tile))
            turned = cut.transpose(-1, -3).flatten(-4, -3).flatten(-2).contiguous()
            yield f"each tile of {tile} by {tile} of {name} were transposed", turned
    if dims >= 2 and tensor.shape[0] > 1:
        yield (
            f"{name} had its first index of axis 0 everywhere",
            tensor[:1].expand_as(tensor).clone(),
        )
    for axis in range(dims - 1, max(-1, dims - 3), -1):
        if tensor.shape[axis] > 2:
            for shift in (1, -1):
                side = "before" if shift > 0 else "behind"
                yield f"{name} were read 1 {side} along axis {axis}", tensor.roll(shift, axis)
    for factor, told in _list_factors(tensor):
        yield f"{name} were multiplied by {told}", tensor * factor
    twin = {torch.bfloat16: torch.float16, torch.float16: torch.bfloat16}.get(tensor.dtype)
    if twin is not None:
        told = str(twin).removeprefix("torch.")
        yield f"the bits of {name} were read as {told}", tensor.view(twin).to(tensor.dtype)


def _iter_index_changes(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield whole numbers, such as indices, as mistakes read them."""
    if tensor.dtype == torch.bool or not tensor.dim():
        return
    low, high = int(tensor.min()), int(tensor.max())
    ordered = torch.arange(tensor.numel(), device=tensor.device).reshape(tensor.shape)
    if tensor.dim() == 1:
        yield (
            f"{name} were not used, but 0, 1, 2 and so on",
            ordered.clamp(max=high).to(tensor.dtype),
        )
    yield f"{name} were 1 less", (tensor - 1).clamp(min=low)
    yield f"{name} were 1 more", (tensor + 1).clamp(max=high)
    if high > 0xFF:
        yield f"{name} were cut to 8 bits", tensor & 0xFF
    yield from _iter_moved(name, tensor)


def _iter_moved(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield an input with the indices of one axis exchanged, late by a tile, or of the first."""
    for axis in range(tensor.dim() - 1, -1, -1):
        size = tensor.shape[axis]
        if size < 2:
            continue
        index = torch.arange(size, device=tensor.device)
        moves = [(f"reversed along axis {axis}", size - 1 - index)]
        if size % 2 == 0:
            told = f"with the halves of axis {axis} exchanged"
            moves.append((told, (index + size // 2) % size))
        for tile in (tile for tile in TILES[:5] if size % tile == 0 and tile < size):
            half = tile // 2
            moves.append((f"with halves of each {tile} along axis {axis} exchanged", index ^ half))
        for tile in (tile for tile in TILES[2:7] if tile < size):
            late = torch.where(index >= tile, index - tile, index)
            moves.append((f"one tile of {tile} late along axis {axis}", late))
            moves.append((f"by the index inside of each {tile} along axis {axis}", index % tile))
        for told, where in moves:
            yield f"{name} were read {told}", tensor.index_select(axis, where)
        if tensor.is_floating_point():
            first = _lay(index == 0, axis, tensor)
            yield f"{name} were zero but for the first of axis {axis}", tensor * first


def _iter_strides(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield an input read with another distance between rows, or another order of axes."""
    shape, flat = tensor.shape, tensor.reshape(-1)
    sizes = {size for size in shape if size > 1}
    products = {one * other for one in sizes for other in sizes}
    for first, axis in combinations(range(tensor.dim()), 2):
        rows, inner = math.prod(shape[first:axis]), math.prod(shape[axis:])
        if rows < 2 or inner < 2:
            continue
        near = sizes | products | {inner * 2, inner + 1, inner - 1, inner // 2, rows}
        near |= {-(-inner // tile) * tile for tile in TILES[2:6]}
        count = math.prod(shape[:first])
        base = torch.arange(count, device=tensor.device)[:, None, None] * rows * inner
        row = torch.arange(rows, device=tensor.device)[:, None]
        column = torch.arange(inner, device=tensor.device)
        for distance in sorted(own for own in near if 0 < own <= 2 * inner and own != inner):
            at = (base + row * distance + column).clamp(max=len(flat) - 1)
            told = f"{distance} instead of {inner} elements from index to index of axis {axis - 1}"
            yield f"{name} were read with {told}", flat[at].reshape(shape)
    if tensor.dim() > TWO_AXES:
        last = [*range(tensor.dim())]
        order = [0, *last[2:], 1]
        laid = tensor.permute(order).reshape(shape)
        yield f"{name} were read with axis 1 as its last", laid
        moved = [shape[axis] for axis in order]
        back = tensor.reshape(moved).movedim(-1, 1).contiguous()
        yield f"{name} were stored with axis 1 as its last", back


def _list_factors(tensor: torch.Tensor) -> list[tuple[float, str]]:
    """Return factors that kernels forget or apply twice."""
    width = tensor.shape[-1] if tensor.dim() else 1
    found = [(2.0, "2"), (0.5, "0.5"), (math.log(2), "ln(2)"), (math.log2(math.e), "log2(e)")]
    if width > 1:
        found += [(width**0.5, f"sqrt({width})"), (width**-0.5, f"1/sqrt({width})")]
    return found


def _iter_parts(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield an input with a part of one axis left out of sums, or counted twice."""
    axes = [
        axis
        for axis in range(tensor.dim() - 1, -1, -1)
        if axis in (1, tensor.dim() - 2) or axis == tensor.dim() - 1
    ]
    for axis in axes:
        size = tensor.shape[axis]
        if size < 2:
            continue
        counts = {tile for tile in (1, *TILES[2:]) if tile < size}
        counts |= {size % tile for tile in TILES if size % tile > 0} | {size // 2}
        index = torch.arange(size, device=tensor.device)
        ends = [(f"the last {n} of {size}", index >= size - n) for n in sorted(counts)]
        ends += [(f"the first {n} of {size}", index < n) for n in sorted(counts)]
        parts = []
        yield from _iter_replaced(name, tensor, axis, sorted(counts))
        for step in (2, 4, 32):
            if size >= 2 * step:
                text = f"all but the first of each {step} of {size}"
                parts.append((text, index % step != 0))
                parts.append(
                    (f"the second half of each {step} of {size}", index % step >= step // 2)
                )
        for at, (text, which) in enumerate([*ends, *parts]):
            mask = _lay(which, axis, tensor)
            where = f"{text} along axis {axis} of {name}"
            yield f"{where} were left out", tensor.masked_fill(mask, 0.0)
            if at < len(ends):
                yield f"{where} were counted twice", torch.where(mask, tensor * 2, tensor)


def _iter_replaced(
    name: str, tensor: torch.Tensor, axis: int, counts: Sequence[int]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield an input with a part of one axis counted in place of another part."""
    size = tensor.shape[axis]
    index = torch.arange(size, device=tensor.device)
    for n in (n for n in counts if 2 * n <= size):
        is_last, is_first = index >= size - n, index < n
        is_before = (index >= size - 2 * n) & ~is_last
        for is_twice, told in ((is_before, f"the {n} before"), (is_first, f"the first {n}")):
            weight = (1 + is_twice.int() - is_last.int()).to(tensor.dtype)
            where = f"the last {n} of {size} along axis {axis} of {name} were left out"
            yield f"{where} and {told} counted twice", tensor * _lay(weight, axis, tensor)
    for tile in (tile for tile in TILES[1:7] if size % tile == 0):
        turned = tensor.movedim(axis, -1).unflatten(-1, (-1, 2, tile // 2))
        for half, told in (
            (0, "second half of each {} were the first"),
            (1, "first half of each {} were the second"),
        ):
            both = turned[..., half : half + 1, :].expand_as(turned).flatten(-3)
            where = f"along axis {axis} of {name} the {told.format(tile)}"
            yield where, both.movedim(-1, axis).contiguous()


def _lay(values: torch.Tensor, axis: int, tensor: torch.Tensor) -> torch.Tensor:
    """Return one value for each index of an axis, in a shape that goes with a tensor."""
    return values.reshape([-1 if own == axis else 1 for own in range(tensor.dim())])


def _iter_swizzled(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield an input whose columns are permuted by their row, as in swizzled shared memory."""
    if tensor.dim() < TWO_AXES:
        return
    rows, columns = tensor.shape[-2:]
    row = torch.arange(rows, device=tensor.device)[:, None]
    column = torch.arange(columns, device=tensor.device)
    for count in (4, 8):
        for per in (1, 2, 4):
            for step in (4, 8, 16):
                if columns % (count * step) == 0:
                    at = (column ^ (row // per % count * step)).expand_as(tensor)
                    told = f"columns of {name} were permuted by their row, as swizzled"
                    yield told, tensor.gather(-1, at)
