"""Finds what stands in wrong elements: right values of other places, or of other inputs.

Each guess names, for some thousand wrong elements, the element or the changed input whose right
value they would hold.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

TILES = (2, 4, 8, 16, 32, 64, 128, 256)
SHIFTS = (*range(1, 17), 24, 32, 48, 64, 80, 96, 128, 192, 256, 512, 1024)
SURE = 0.97
"""Of wrong elements that a sentence has to hold for."""
SAMPLE = 4096
DENSE = 0.02
_DRAWN = 2**20
CHANCE = 1e-3
"""How probable a guess may be that holds by accident."""
_QUICK = 256
_ROUNDING = 1e-6
_GUESSES = 2000
_BUDGET_S = 1.0
"""CPU time for running the reference on changed inputs."""
_MAX_WALL_S = 6.0
_TRIED = 64
_LEAST_ROUNDED = 16
_EXACT = 0.5
"""Of the error that may be: a change of the inputs that leaves less is looked no further for."""
TWO_AXES = 2
FEW = 8
"""With fewer elements a guess may hold since sizes of 1 make many things equal."""

Rerun = Callable[[list[torch.Tensor]], torch.Tensor]
"""Returns the right output for changed inputs, of the same rows, in the oracle's dtype."""


class WrongOutput(NamedTuple):
    """A wrong output, what is right, and how to find out what other inputs would give."""

    output: torch.Tensor
    """The candidate's, any shape and dtype."""
    oracle: torch.Tensor
    """What is right; same shape."""
    wrong: torch.Tensor
    """Of the same shape: which elements are not within limits."""
    atol: float = 0.0
    """How far an element may be off, in the unit of the output."""
    rtol: float = 0.0
    """The same, as a share of the element."""
    inputs: Sequence[tuple[str, torch.Tensor]] = ()
    """Names and values of the reference's inputs."""
    rerun: Rerun | None = None
    """None: the reference is not run again."""
    is_poison: torch.Tensor | None = None
    """Where the output holds the bits that it held before the call; None: not known."""


class AxisPlace(NamedTuple):
    """Where along one axis elements are wrong."""

    axis: int
    text: str
    first: int
    last: int
    period: int = 0
    """Of the tiles that ``first`` and ``last`` count in; 0: they count along the whole axis."""

    @property
    def verb(self) -> str:
        """``is`` where the text names one index."""
        return "is" if self.first == self.last else "are"


class WrongSample(NamedTuple):
    """Some wrong elements."""

    where: torch.Tensor
    """(count, dimensions) int64: their indices."""
    got: torch.Tensor
    """(count,) fp64"""
    right: torch.Tensor
    allowed: torch.Tensor
    """How far a value may be off that is the same."""
    flat: torch.Tensor
    """The whole oracle, in memory order."""
    shape: tuple[int, ...]
    by_chance: float
    """Probability that an element equals one drawn at random."""
    has_poison: bool
    """All of them hold what was there before the call."""


def name_axis(axis: int, dims: int, *, is_one: bool = False) -> str:
    """Return what the indices of an axis are called; the last is the columns."""
    if dims == 1:
        return "element" if is_one else "elements"
    name = {dims - 1: "column", dims - 2: "row"}.get(axis)
    if name is None:
        return f"index of axis {axis}" if is_one else f"indices of axis {axis}"
    return name if is_one else f"{name}s"


def name_span(first: int, last: int, axis: int, dims: int) -> str:
    """Return indices of an axis in words: ``columns 3 to 7``."""
    name = name_axis(axis, dims, is_one=first == last)
    return f"{name} {first}" if first == last else f"{name} {first} to {last}"


def name_count(count: int, axis: int, dims: int) -> str:
    """Return a number of indices in words: ``3 columns``."""
    return f"{count} {name_axis(axis, dims, is_one=count == 1)}"


def name_dtype(dtype: torch.dtype) -> str:
    """Return what a type is called: ``float16``."""
    return str(dtype).removeprefix("torch.")


def draw_sample(given: WrongOutput) -> WrongSample:
    """Return some thousand wrong elements, drawn the same way in each run."""
    wrong, shape = given.wrong.reshape(-1), tuple(given.wrong.shape)
    generator = torch.Generator().manual_seed(1)
    count = int(wrong.count_nonzero())
    if count > DENSE * wrong.numel() and wrong.numel() > _DRAWN:
        at = torch.randint(wrong.numel(), (_DRAWN,), generator=generator).to(wrong.device)
        at = at[wrong[at]].unique()
    else:
        at = wrong.nonzero().flatten()
    if len(at) > SAMPLE:
        at = at[torch.randperm(len(at), generator=generator)[:SAMPLE].to(at.device)]
        at = at.sort().values
    flat, output = given.oracle.reshape(-1), given.output.reshape(-1)
    right, got = flat[at].double(), output[at].double()
    finite = right[right.isfinite()]
    scale = float(finite.square().mean().sqrt()) if len(finite) else 0.0
    # Integers are equal or not; what is moved in floating point may be rounded once more.
    rounding = _ROUNDING * scale if given.oracle.is_floating_point() else 0.0
    allowed = given.atol + given.rtol * right.abs() + rounding
    drawn = flat[torch.randint(len(flat), (len(at),), generator=generator).to(at.device)]
    near = ((got - drawn.double()).abs() <= allowed).double().mean()
    return WrongSample(
        where=torch.stack(unravel(at, shape), 1),
        got=got,
        right=right,
        allowed=allowed,
        flat=flat,
        shape=shape,
        by_chance=max(float(near), 1 / SAMPLE),
        has_poison=given.is_poison is not None and bool(given.is_poison.reshape(-1)[at].all()),
    )


def unravel(at: torch.Tensor, shape: Sequence[int]) -> list[torch.Tensor]:
    """Return the indices of places in memory order, one tensor for each axis."""
    found = []
    for size in reversed(shape):
        found.append(at % size)
        at = at // size
    return found[::-1]


def pick(sample: WrongSample, which: torch.Tensor) -> WrongSample:
    """Return those of a sample that a mask or indices name."""
    return sample._replace(
        where=sample.where[which],
        got=sample.got[which],
        right=sample.right[which],
        allowed=sample.allowed[which],
    )


def is_sure(holds: torch.Tensor, sample: WrongSample, guesses: int) -> bool:
    """Return whether a guess holds for nearly all, and not by one of many guesses' luck."""
    count = len(holds)
    if not count or float(holds.double().mean()) < SURE or sample.by_chance > 0.5:
        return False
    return guesses * sample.by_chance**count < CHANCE


def ravel(where: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Return places in memory order for (count, dimensions) indices."""
    at = where[:, 0]
    for axis in range(1, len(shape)):
        at = at * shape[axis] + where[:, axis]
    return at


class ElementSource(NamedTuple):
    """A guess: which elements of the right output stand in the wrong places."""

    text: str
    at: torch.Tensor
    """In memory order; negative: outside."""
    axis: int = -1
    shift: int = 0


def find_source(sample: WrongSample, places: Sequence[AxisPlace]) -> str | None:
    """Return which right values stand in the wrong places; None: none that is guessed."""
    if len(sample.got) < 2:
        return None
    few = pick(sample, torch.arange(0, len(sample.got), max(1, len(sample.got) // _QUICK)))
    guesses = zip(_iter_sources(few), _iter_sources(sample), strict=True)
    for quick, whole in guesses:
        if holds_at(quick, few) and holds_at(whole, sample):
            for place in places:
                if place.axis == whole.axis and (text := _tell_moved(place, whole, sample)):
                    return text
            return whole.text
    return None


def _tell_moved(place: AxisPlace, source: ElementSource, sample: WrongSample) -> str | None:
    """Return that a part of each tile holds another part; None where that is outside of it."""
    first, last = place.first - source.shift, place.last - source.shift
    if first < 0 or (place.period and last >= place.period):
        return None
    each = f" of each {place.period}" if place.period else ""
    axis, dims = place.axis, len(sample.shape)
    here = name_span(place.first, place.last, axis, dims)
    verb = "holds" if place.first == place.last else "hold"
    return f"{here}{each} {verb} {name_span(first, last, axis, dims)}"


def holds_at(source: ElementSource, sample: WrongSample) -> bool:
    """Return whether the values of a guess stand in the wrong elements, as no luck explains."""
    inside = source.at >= 0
    if float(inside.double().mean()) < 0.5:
        return False
    found = sample.flat[source.at.clamp(0, len(sample.flat) - 1)].double()
    holds = ((found - sample.got).abs() <= sample.allowed)[inside]
    return is_sure(holds, sample, guesses=_GUESSES)


def _iter_sources(sample: WrongSample) -> Iterator[ElementSource]:
    """Yield guesses, the simplest first."""
    dims = len(sample.shape)
    for axis in range(dims - 1, -1, -1):
        yield from _iter_shifts(sample, axis)
    yield from _iter_layouts(sample)
    for axis in range(dims - 1, -1, -1):
        yield from _iter_tile_sources(sample, axis)
    if dims >= 2:
        yield from _iter_tile_transposes(sample)
        yield from _iter_swizzles(sample)
    for shift in SHIFTS:
        for signed in (shift, -shift):
            at = ravel(sample.where, sample.shape) - signed
            at = torch.where(at < len(sample.flat), at, -1)
            side = "before" if signed > 0 else "behind"
            count = "1 element" if shift == 1 else f"{shift} elements"
            yield ElementSource(f"they hold what belongs {count} {side}, in memory order", at)


def move(sample: WrongSample, axis: int, index: torch.Tensor) -> torch.Tensor:
    """Return the places, in memory order, with other indices along an axis; -1 outside."""
    where = sample.where.clone()
    where[:, axis] = index
    is_inside = (index >= 0) & (index < sample.shape[axis])
    return torch.where(is_inside, ravel(where, sample.shape), -1)


def _iter_shifts(sample: WrongSample, axis: int) -> Iterator[ElementSource]:
    index, size, name = (
        sample.where[:, axis],
        sample.shape[axis],
        name_axis(axis, len(sample.shape)),
    )
    for shift in (shift for shift in SHIFTS if shift < size):
        for signed in (shift, -shift):
            side = "before" if signed > 0 else "behind"
            text = f"they hold what belongs {name_count(shift, axis, len(sample.shape))} {side}"
            yield ElementSource(text, move(sample, axis, index - signed), axis, signed)
    one = name_axis(axis, len(sample.shape), is_one=True)
    for first in (0, size - 1) if size > 1 else ():
        which = "the first" if first == 0 else "the last"
        yield ElementSource(f"all {name} hold {which} {one}", move(sample, axis, index * 0 + first))
    if size > 1:
        yield ElementSource(f"the {name} are reversed", move(sample, axis, size - 1 - index))
        yield ElementSource(
            f"the {name} hold those of half their index", move(sample, axis, index // 2)
        )
        text = f"the {name} hold those of twice their index"
        yield ElementSource(text, move(sample, axis, index * 2))


def _iter_layouts(sample: WrongSample) -> Iterator[ElementSource]:
    """Yield transposed outputs, and rows that were stored with another distance."""
    shape, dims = sample.shape, len(sample.shape)
    if dims < 2:
        return
    at = ravel(sample.where, shape)
    for left in range(dims - 1):
        for right in range(left + 1, dims):
            order = list(range(dims))
            order[left], order[right] = order[right], order[left]
            swapped = [shape[axis] for axis in order]
            where = unravel(at, swapped)
            text = (
                "they hold the transposed output"
                if left == dims - 2
                else f"they hold the output with axes {left} and {right} exchanged"
            )
            yield ElementSource(text, ravel(torch.stack([where[i] for i in order], 1), shape))
    rows, columns = shape[-2:]
    inside = at % (rows * columns)
    near = {columns + step for step in (-8, -4, -2, -1, 1, 2, 3, 4, 8, 16, 32)}
    near |= {-(-columns // tile) * tile for tile in TILES} | {rows, 2 * columns, columns // 2}
    for width in sorted(near - {columns}):
        if width < 2 or rows < 2:
            continue
        row, column = inside // width, inside % width
        source = at - inside + row * columns + column
        is_inside = (row < rows) & (column < columns)
        text = f"they are stored with rows of {width} instead of {columns} elements"
        yield ElementSource(text, torch.where(is_inside, source, -1))


def _iter_tile_sources(sample: WrongSample, axis: int) -> Iterator[ElementSource]:
    """Yield elements moved inside of tiles of one axis."""
    index, size = sample.where[:, axis], sample.shape[axis]
    name = name_axis(axis, len(sample.shape))
    for tile in (tile for tile in TILES if tile <= size):
        inner, base = index % tile, index - index % tile
        half = tile // 2
        swapped = f"the halves of each {tile} {name} are swapped"
        text = f"{name} are swapped in pairs" if tile == 2 else swapped
        yield ElementSource(text, move(sample, axis, index ^ half))
        if tile > 2:
            yield ElementSource(
                f"each {tile} {name} are reversed", move(sample, axis, base + tile - 1 - inner)
            )
        yield ElementSource(f"each {tile} {name} hold the first of them", move(sample, axis, base))
        yield ElementSource(
            f"each tile of {tile} {name} holds the first tile", move(sample, axis, inner)
        )
        for part in (part for part in TILES if tile > 2 and part * 2 <= tile):
            moved = inner % part * (tile // part) + inner // part
            text = f"{name} are permuted within each {tile}, as {part} by {tile // part} transposed"
            yield ElementSource(text, move(sample, axis, base + moved))
        for turn in (1, 2, 4, 8, tile // 4):
            if 0 < turn < half:
                for signed in (turn, -turn):
                    moved = base + (inner - signed) % tile
                    text = f"{name} are rotated by {abs(signed)} within each {tile}"
                    yield ElementSource(text, move(sample, axis, moved))


def _iter_tile_transposes(sample: WrongSample) -> Iterator[ElementSource]:
    row, column = sample.where[:, -2], sample.where[:, -1]
    for tile in TILES[1:7]:
        if tile <= min(sample.shape[-2:]):
            where = sample.where.clone()
            where[:, -2] = row - row % tile + column % tile
            where[:, -1] = column - column % tile + row % tile
            is_inside = (where[:, -2] < sample.shape[-2]) & (where[:, -1] < sample.shape[-1])
            at = torch.where(is_inside, ravel(where, sample.shape), -1)
            yield ElementSource(f"each tile of {tile} by {tile} is transposed", at)


def _iter_swizzles(sample: WrongSample) -> Iterator[ElementSource]:
    """Yield columns that are permuted by bits of the row, as in swizzled shared memory."""
    row, column = sample.where[:, -2], sample.where[:, -1]
    for rows in (2, 4, 8, 16, 32):
        for per in (1, 2, 4):
            for step in (1, 2, 4, 8, 16):
                mask = row // per % rows * step
                text = f"columns are permuted within each {rows * step} by their row, as swizzled"
                yield ElementSource(text, move(sample, -1, column ^ mask))


# What changed inputs would give.


def find_changed_input(given: WrongOutput, sample: WrongSample) -> str | None:
    """Return the changed input for which the reference gives the wrong values; None: none tried."""
    if given.rerun is None or len(sample.got) < FEW:
        return None
    end_s, cpu_end_s = time.monotonic() + _MAX_WALL_S, time.thread_time() + _BUDGET_S
    at = ravel(sample.where, sample.shape)
    own = (sample.got - sample.right).abs()
    luck = float((2 * sample.allowed / own.clamp(min=1e-300)).clamp(max=1.0).median())
    size = float(own[own.isfinite()].square().mean().sqrt()) if bool(own.isfinite().any()) else 0.0
    limit = float(sample.allowed.square().mean().sqrt())
    best: tuple[float, str] | None = None
    for text, inputs in _iter_changes(given):
        if time.monotonic() > end_s or time.thread_time() > cpu_end_s:
            break
        try:
            found = given.rerun(inputs).reshape(-1)[at].double()
        except (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError, AssertionError):
            continue  # the reference does not take it
        error = (found - sample.got).abs()
        left = float(error.square().mean().sqrt())
        holds = float((error <= 2 * sample.allowed).double().mean()) >= SURE
        is_rounding = "rounded" in text and len(own) >= _LEAST_ROUNDED and left < 0.2 * size
        if (holds and _TRIED * max(luck, 1e-6) ** len(own) < 0.05) or is_rounding:
            if left < _EXACT * limit:
                return f"as if {text}{_tell_addend(given, text, inputs, sample)}"
            if best is None or left < _EXACT * best[0]:
                best = left, f"as if {text}{_tell_addend(given, text, inputs, sample)}"
    return best[1] if best else None


def _tell_addend(
    given: WrongOutput, text: str, inputs: Sequence[torch.Tensor], sample: WrongSample
) -> str:
    """Say that an input that seems to be zero is one that is added, element by element."""
    for (name, tensor), changed in zip(given.inputs, inputs, strict=True):
        if text == f"{name} were zero" and changed is not tensor:
            wide = tensor.numel() == len(sample.flat)
            at = ravel(sample.where, sample.shape) if wide else sample.where[:, -1]
            if not wide and (tensor.dim() != 1 or len(tensor) != sample.shape[-1]):
                return ""
            lost = sample.right - sample.got
            near = (tensor.reshape(-1)[at].double() - lost).abs() <= 2 * sample.allowed
            return ": it is not added" if float(near.double().mean()) >= SURE else ""
    return ""


def _iter_changes(given: WrongOutput) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Yield what was done to inputs, in words, and all inputs."""
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
                yield f"{one[0]} and {two[0]} were exchanged", both
                yield f"{two[0]} were {one[0]}", put(right, one[1])
    for at in floats:
        for text, tensor in _iter_own_changes(*given.inputs[at]):
            yield text, put(at, tensor)
    for name, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        yield (
            f"all inputs were rounded to {name}",
            [one.to(dtype).to(one.dtype) if one.is_floating_point() else one for one in tensors],
        )
    for half, told in ((0x1000, ""), (0, ", by cutting off")):
        yield (
            f"all inputs were rounded to TF32{told}",
            [_round_to_tf32(one, half) for one in tensors],
        )
    for make_changes in (_iter_parts, _iter_swizzled):
        for at in floats:
            for text, tensor in make_changes(*given.inputs[at]):
                yield text, put(at, tensor)


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
        parts = [(f"the last {n} of {size}", index >= size - n) for n in sorted(counts)]
        parts += [(f"the first {n} of {size}", index < n) for n in sorted(counts)]
        yield from _iter_replaced(name, tensor, axis, sorted(counts))
        for step in (2, 4, 32):
            if size >= 2 * step:
                text = f"all but the first of each {step} of {size}"
                parts.append((text, index % step != 0))
                parts.append(
                    (f"the second half of each {step} of {size}", index % step >= step // 2)
                )
        for text, which in parts:
            mask = _lay(which, axis, tensor)
            where = f"{text} along axis {axis} of {name}"
            yield f"{where} were left out", tensor.masked_fill(mask, 0.0)
            if text.startswith(("the last", "the first")):
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
