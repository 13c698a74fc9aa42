"""What usual mistakes make of sums, means, maxima and scans: a part left out, another row's result.

The words are fixed, as those of ``step_changes``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import torch

from kernelkb.measure.worker.judge.compare.steps import Made, ReferenceStep, find_maker, is_float
from kernelkb.measure.worker.judge.compare.wrong_values import name_dtype

_TILES = (4, 8, 16, 32, 64, 128, 256)
_SCANNED = (16, 32, 64, 128, 256, 512, 1024)
_LANES = (8, 16, 32, 64, 128, 256)
_NARROW = (torch.bfloat16, torch.float16)
_MAX_ADDED = 2**30
"""Products that are added in a narrow type."""
_MAX_TURNS = 512
"""Of a sum that is rounded in each turn."""
REDUCTIONS = ("sum", "mean", "amax", "amin", "max", "min", "var", "prod", "argmax", "argmin")

# Sums, means and maxima.


class _Reduced(NamedTuple):
    """A reduction along one axis, or several."""

    value: torch.Tensor
    axes: list[int]
    """Not negative, in order."""
    run: Callable[..., torch.Tensor]
    """Of a tensor of the same dimensions: as the step, with all axes kept."""


def _read_reduction(step: ReferenceStep) -> _Reduced | None:
    value = step.args[0]
    output = step.output[0] if isinstance(step.output, tuple) else step.output
    if step.name not in REDUCTIONS or not isinstance(value, torch.Tensor) or not value.dim():
        return None
    asked = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim")
    if isinstance(asked, torch.Tensor):
        return None
    asked = [asked] if isinstance(asked, int) else list(asked or range(value.dim()))
    axes = sorted(axis % value.dim() for axis in asked)
    single = {"argmax": torch.argmax, "argmin": torch.argmin, "prod": torch.prod}

    def run(tensor: torch.Tensor) -> torch.Tensor:
        if step.name in single:
            return single[step.name](tensor, dim=axes[0], keepdim=True)
        if step.name == "var":
            correction = step.kwargs.get("correction", 1)
            return torch.var(tensor, dim=axes, correction=correction, keepdim=True)
        name = {"max": "amax", "min": "amin"}.get(step.name, step.name)
        result: torch.Tensor = getattr(torch, name)(tensor, dim=axes, keepdim=True)
        return result

    if value.dtype == torch.bool:
        value = value.long()
    kept = run(value)
    if kept.numel() != output.numel() or (step.name in single and len(axes) > 1):
        return None
    return _Reduced(value, axes, run)


def iter_reductions(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    """Yield what a reduction gives that takes in other elements, or is of another row."""
    reduced = _read_reduction(step)
    if reduced is None:
        return
    is_pair = isinstance(step.output, tuple)
    shape = (step.output[0] if is_pair else step.output).shape
    made = chain(
        _iter_formulas(step, reduced), _iter_other_rows(step, reduced), _iter_fewer(step, reduced)
    )
    for text, kept in made:
        flat = kept.reshape(shape)
        yield text, (flat, *step.output[1:]) if is_pair else flat


def _iter_formulas(step: ReferenceStep, reduced: _Reduced) -> Made:
    value, run, kept = reduced.value, reduced.run, reduced.run(reduced.value)
    count = math.prod(value.shape[axis] for axis in reduced.axes)
    if step.name in ("mean", "var", "sum") and count > 1:
        if step.name != "sum":
            yield f"{step.label} were not divided by {count}", kept * count
        else:
            yield f"{step.label} were divided by {count}", kept / count
        padded = sorted({-(-count // tile) * tile for tile in _TILES} - {count})
        for other in (*padded, count - 1, count + 1):
            text = f"{step.label} were divided by {other} instead of {count}"
            if step.name != "sum":
                yield text, kept * count / other
    if step.name == "var":
        squares = value.square().mean(reduced.axes, keepdim=True)
        yield f"{step.label} took squares without the mean taken off", squares
        yield f"{step.label} were its root", kept.sqrt()
    if step.name in ("amax", "max"):
        yield f"{step.label} started at 0", kept.clamp(min=0)
        yield f"{step.label} took absolute values", run(value.abs())
        yield f"{step.label} were a minimum", -run(-value)
    if step.name in ("amin", "min"):
        yield f"{step.label} started at 0", kept.clamp(max=0)
        yield f"{step.label} were a maximum", -run(-value)
    if step.name in ("argmax", "argmin"):
        best = value.gather(reduced.axes[0], kept)
        lost = best <= 0 if step.name == "argmax" else best >= 0
        yield f"{step.label} started at 0", torch.where(lost, 0, kept)
        last = value.shape[reduced.axes[0]] - 1
        flipped = last - run(value.flip(reduced.axes[0]))
        yield f"{step.label} took the last of equal elements", flipped
        yield f"{step.label} took absolute values", run(value.abs())
    if step.name == "sum":
        yield f"{step.label} took absolute values", run(value.abs())
        yield f"{step.label} took squares", run(value.square())


def _iter_other_rows(step: ReferenceStep, reduced: _Reduced) -> Made:
    """Yield the statistic of another row, of all, or one that is not reset."""
    kept = reduced.run(reduced.value)
    axes = [axis for axis in range(kept.dim()) if kept.shape[axis] > 1]
    for axis in axes:
        for shift, side in ((1, "before"), (-1, "behind")):
            text = f"{step.label} were that of the index {side} along axis {axis}"
            yield text, kept.roll(shift, axis)
        first = kept.narrow(axis, 0, 1).expand_as(kept).clone()
        yield f"{step.label} were that of the first index of axis {axis}", first
        last = kept.narrow(axis, kept.shape[axis] - 1, 1).expand_as(kept).clone()
        yield f"{step.label} were that of the last index of axis {axis}", last
        running = {"amax": torch.cummax, "max": torch.cummax, "amin": torch.cummin}
        text = f"{step.label} kept what the indices before along axis {axis} had"
        if step.name in running:
            yield text, running[step.name](kept, axis).values
        elif step.name in ("sum", "mean", "prod"):
            yield text, torch.cumsum(kept, axis)
        for tile in (2, *_TILES):
            if tile < kept.shape[axis]:
                index = torch.arange(kept.shape[axis], device=kept.device)
                where = f"each {tile} along axis {axis}"
                text = f"{step.label} were that of the first of {where}"
                yield text, kept.index_select(axis, index // tile * tile)
                if step.name in ("sum", "mean"):
                    text = f"{step.label} kept what the indices before in {where} had"
                    yield text, _sum_in_tiles(kept, axis, tile)
    if axes and step.name in ("sum", "mean", "amax", "amin"):
        whole = getattr(torch, step.name)(reduced.value)
        yield f"{step.label} were over all axes", whole.expand_as(kept).clone()


def _take(step: ReferenceStep, found: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return where the elements stood whose index was found among some of them."""
    return places[found] if step.name.startswith("arg") else found


def _sum_in_tiles(value: torch.Tensor, axis: int, tile: int) -> torch.Tensor:
    """Return the running sum along an axis that begins anew in each tile."""
    turned = value.movedim(axis, -1)
    size = turned.shape[-1]
    padded = torch.nn.functional.pad(turned, (0, -size % tile)).unflatten(-1, (-1, tile))
    return padded.cumsum(-1).flatten(-2)[..., :size].movedim(-1, axis)


def _iter_fewer(step: ReferenceStep, reduced: _Reduced) -> Made:
    """Yield what a reduction gives that leaves elements out, or takes some twice."""
    axis = reduced.axes[-1]
    value, size = reduced.value, reduced.value.shape[axis]
    counts = {size % tile for tile in _TILES} | {1, size // 2}
    counts |= {tile for tile in _TILES if tile < size}
    is_sum = step.name in ("sum", "mean")
    part_of = 1.0 if step.name == "sum" else 1.0 / size

    def total(part: torch.Tensor) -> torch.Tensor:
        """Sum some elements as a part of the whole, which keeps its divisor."""
        return part.sum(reduced.axes, keepdim=True) * part_of if is_sum else reduced.run(part)

    is_single = len(reduced.axes) == 1
    for count in sorted(own for own in counts if 0 < own < size):
        kept = value.narrow(axis, 0, size - count)
        told = f"{count} of {size} along axis {axis}"
        if is_single or not is_sum:
            yield f"{step.label} left out the last {told}", total(kept)
        rest = value.narrow(axis, count, size - count)
        shift = count if step.name.startswith("arg") else 0
        if is_single or not is_sum:
            yield f"{step.label} left out the first {told}", total(rest) + shift
        if is_sum and is_single:
            last, first = value.narrow(axis, size - count, count), value.narrow(axis, 0, count)
            whole = total(value)
            yield f"{step.label} took the last {told} twice", whole + total(last)
            yield f"{step.label} took the first {told} twice", whole + total(first)
    if is_single:
        yield from _iter_strided(step, value, axis, total)


def _iter_strided(
    step: ReferenceStep,
    value: torch.Tensor,
    axis: int,
    total: Callable[[torch.Tensor], torch.Tensor],
) -> Made:
    """Yield what a reduction gives of some lanes of each tile, or as an index inside of one."""
    index = torch.arange(value.shape[axis], device=value.device)
    for tile in _TILES:
        if tile > len(index):
            break
        halves = (index % tile < tile // 2).nonzero().flatten()
        text = f"{step.label} left out the second half of each {tile} along axis {axis}"
        yield text, _take(step, total(value.index_select(axis, halves)), halves)
        firsts = (index % tile == 0).nonzero().flatten()
        text = f"{step.label} took the first of each {tile} only along axis {axis}"
        yield text, _take(step, total(value.index_select(axis, firsts)), firsts)
    if step.name in ("argmax", "argmin"):
        kept = total(value)
        for tile in _TILES:
            yield f"{step.label} gave the index inside of each {tile}", kept % tile


def iter_rescaled(step: ReferenceStep, steps: Sequence[ReferenceStep]) -> Made:
    """Yield a softmax by parts whose sums are not scaled by the maximum of all of them."""
    if step.name not in ("exp", "sum", "div") or not step.args or not is_float(step.args[0]):
        return
    maker = step if step.name == "exp" else find_maker(step.args[0], steps)
    if maker is None or maker.name != "exp" or not step.args[0].dim():
        return
    below = maker.args[0].reshape(step.args[0].shape)
    asked = step.args[1] if step.name == "sum" and len(step.args) > 1 else [-1]
    axis = (asked[0] if isinstance(asked, (list, tuple)) and asked else -1) % below.dim()
    running = () if step.name == "exp" else _iter_running_maxima(below, axis)
    for told, other in chain(running, _iter_own_maxima(below, axis)):
        own = (below - other).exp()
        text = f"{step.label} {told}"
        if step.name == "sum":
            yield text, own.sum(axis, keepdim=step.output.dim() == own.dim())
        elif step.name == "div":
            yield text, step.function(own, step.args[1])
        else:
            yield text, own


def _iter_running_maxima(value: torch.Tensor, axis: int) -> Made:
    """Yield, for each element, the maximum of all up to the end of its tile."""
    size = value.shape[axis]
    index = torch.arange(size, device=value.device)
    running = torch.cummax(value, axis).values
    for tile in (1, *(tile for tile in _TILES if tile < size)):
        end = (index // tile * tile + tile - 1).clamp(max=size - 1)
        told = f"in tiles of {tile} were not scaled anew where the maximum grows"
        yield told, running.index_select(axis, end)


def _iter_own_maxima(value: torch.Tensor, axis: int) -> Made:
    """Yield, for each element, the maximum of the part of an axis that it belongs to."""
    size = value.shape[axis]
    index = torch.arange(size, device=value.device)
    tiles = {*_TILES[2:], -(-size // 2), -(-size // 4)}
    parts = [(f"each tile of {tile}", index // tile) for tile in sorted(tiles) if tile < size]
    parts += [(f"each of {lanes} lanes", index % lanes) for lanes in _LANES if lanes < size]
    turned = value.movedim(axis, -1)
    for told, part in parts:
        count = int(part.max()) + 1
        low = torch.full((*turned.shape[:-1], count), -math.inf, dtype=value.dtype)
        highest = low.to(value.device).scatter_reduce(
            -1, part.expand_as(turned), turned, "amax", include_self=True
        )
        own = highest.index_select(-1, part).movedim(-1, axis)
        yield f"had a maximum of its own in {told}", own.clamp(min=-1e30)


# Scans.


def iter_scans(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    """Yield what a scan gives that leaves elements out or is wrong from tile to tile."""
    if step.name not in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"):
        return
    value, axis = step.args[0], step.args[1] % step.args[0].dim()
    size = value.shape[axis]
    whole = step.output[0] if isinstance(step.output, tuple) else step.output
    ones = whole.narrow(axis, 0, 1) * 0 + (step.name == "cumprod")
    behind = torch.cat([ones, whole.narrow(axis, 0, size - 1)], axis)
    made: list[tuple[str, torch.Tensor]] = [(f"{step.label} left out its own element", behind)]

    def scan(part: torch.Tensor, along: int) -> torch.Tensor:
        found = step.function(part, along)
        return found[0] if isinstance(found, tuple) else found

    made.append((f"{step.label} ran from the other end", scan(value.flip(axis), axis).flip(axis)))
    if axis == value.dim() - 1 and value.dim() > 1:
        rows = scan(value.reshape(-1), 0).reshape(value.shape)
        made.append((f"{step.label} kept what the rows before had", rows))
    for tile in _SCANNED:
        if tile < size:
            made += _list_carries(step, value.movedim(axis, -1), axis, tile, scan)
    for text, output in made:
        yield text, (output, *step.output[1:]) if isinstance(step.output, tuple) else output


def _list_carries(
    step: ReferenceStep,
    value: torch.Tensor,
    axis: int,
    tile: int,
    scan: Callable[[torch.Tensor, int], torch.Tensor],
) -> list[tuple[str, torch.Tensor]]:
    """Return scans by tiles, along the last axis, that take the wrong value from tile to tile."""
    size = value.shape[-1]
    count = -(-size // tile)
    fill = 1.0 if step.name == "cumprod" else 0.0
    padded = torch.nn.functional.pad(value, (0, count * tile - size), value=fill)
    cut = padded.unflatten(-1, (count, tile))
    inner = scan(cut, cut.dim() - 1)

    def lay(tiles: torch.Tensor) -> torch.Tensor:
        return tiles.flatten(-2)[..., :size].movedim(-1, axis)

    made = [(f"{step.label} started anew at each {tile}", lay(inner))]
    if step.name == "cumsum":
        for told, carry in _list_carried(cut, is_whole=size % tile == 0):
            text = f"{step.label} took {told} {tile}"
            made.append((text, lay(inner + carry[..., None])))
    return made


def _list_carried(cut: torch.Tensor, *, is_whole: bool) -> list[tuple[str, torch.Tensor]]:
    """Return what a running sum may wrongly add to each tile of the last two axes."""
    sums, ends = cut.sum(-1), cut[..., -1]
    before = torch.nn.functional.pad(sums, (1, 0))[..., :-1]
    exact = torch.cumsum(before, -1)
    lasts = torch.nn.functional.pad(ends, (1, 0))[..., :-1]
    first = torch.where(exact != 0, sums[..., :1], 0.0)
    found = [
        ("over the sum of the tile before only at each", before),
        ("over the last element of each tile, not its sum, at each", torch.cumsum(lasts, -1)),
        ("over the last element of the tile before at each", lasts),
        ("over its own sum, too, at each", exact + sums),
        ("over the sum of the first tile only at each", first),
    ]
    if not is_whole:
        last = exact.clone()
        last[..., -1] = 0.0
        found.append(("nothing over into the last, incomplete tile of", last))
    return found


# Sums in a narrow type.


def iter_narrow_sums(step: ReferenceStep) -> Made:
    """Yield sums that are rounded after each part that is added."""
    if not is_float(step.output):
        return
    for dtype in _NARROW:
        if step.name in ("mm", "bmm"):
            left, right = step.args[:2]
            size = left.shape[-1]
            if size * step.output.numel() > _MAX_ADDED:
                return
            ends = range(0, size, 16)
            parts = (left[..., n : n + 16] @ right[..., n : n + 16, :] for n in ends)
            total = _sum_rounded(parts, dtype)
            yield f"{step.label} were summed in {name_dtype(dtype)}", total.to(left.dtype)
        reduced = _read_reduction(step) if step.name in ("sum", "mean") else None
        if (
            reduced
            and len(reduced.axes) == 1
            and reduced.value.shape[reduced.axes[0]] <= _MAX_TURNS
        ):
            axis = reduced.axes[0]
            total = _sum_rounded(iter(reduced.value.split(1, axis)), dtype)
            total = total.to(step.output.dtype)
            total = total / (reduced.value.shape[axis] if step.name == "mean" else 1)
            yield (
                f"{step.label} were summed in {name_dtype(dtype)}",
                total.reshape(step.output.shape),
            )


def _sum_rounded(parts: Iterator[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    total = next(parts).to(dtype)
    for part in parts:
        total = (total.to(part.dtype) + part).to(dtype)
    return total
