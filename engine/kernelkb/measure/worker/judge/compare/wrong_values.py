"""Finds what stands in wrong elements: right values of other places, or of other inputs.

Each guess names, for some thousand wrong elements, the element or the changed input whose right
value they would hold.
"""

from __future__ import annotations

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
_FINE = 512
_ROUNDING = 1e-6
_GUESSES = 2000
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
    is_most: bool = False
    """All indices but the first."""

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


class SearchLimit:
    """How long a search may still run: some seconds of its thread, more of them by the clock."""

    wall_s, cpu_s = 20.0, 6.0

    def __init__(self) -> None:
        self.was_cut = False
        self._end_s = time.monotonic() + self.wall_s
        self._cpu_end_s = time.thread_time() + self.cpu_s

    def is_over(self) -> bool:
        """Return whether the time is over; if so, note that the search was cut."""
        is_over = time.monotonic() > self._end_s or time.thread_time() > self._cpu_end_s
        self.was_cut |= is_over
        return is_over


class ToldCause(NamedTuple):
    """What gives the wrong elements their values."""

    text: str
    keeps_right: bool
    """Whether right elements stay right: else it is so in the wrong places alone."""


class FineSample(NamedTuple):
    """Some right elements, in memory order."""

    at: torch.Tensor
    right: torch.Tensor
    allowed: torch.Tensor

    def is_kept(self, found: torch.Tensor) -> bool:
        """Return whether nearly all are still right in another output, in memory order."""
        kept = (found[self.at].double() - self.right).abs() <= 2 * self.allowed
        return not len(kept) or float(kept.double().mean()) >= SURE


def draw_fine(given: WrongOutput, sample: WrongSample) -> FineSample:
    """Return some hundred right elements, drawn the same way in each run."""
    flat, wrong = sample.flat, given.wrong.reshape(-1)
    generator = torch.Generator().manual_seed(3)
    drawn = torch.randint(len(flat), (8 * _FINE,), generator=generator).to(flat.device)
    at = drawn[~wrong[drawn]][:_FINE]
    right = flat[at].double()
    return FineSample(at, right, given.atol + given.rtol * right.abs() + 1e-300)


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
    inside = (source.at >= 0) & (source.at != ravel(sample.where, sample.shape))
    if float(inside.double().mean()) < 0.5:  # outside, or nothing is moved
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
        rows, columns = sample.shape[-2:]
        place = sample.where[:, -2] * columns + sample.where[:, -1]
        base = ravel(sample.where, sample.shape) - place
        for tile in (tile for tile in TILES[1:6] if tile <= rows * columns):
            other = place ^ (tile // 2)
            at = torch.where(other < rows * columns, base + other, -1)
            yield ElementSource(f"the halves of each {tile} elements are swapped", at)
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
        for unit in (1, 2, 4):
            count = tile // unit
            place = inner // unit
            of = "" if unit == 1 else f" vectors of {unit}"
            for part in (part for part in TILES if count > 2 and part * 2 <= count):
                moved = (place % part * (count // part) + place // part) * unit + inner % unit
                how = f"as {part} by {count // part}{of} transposed"
                text = f"{name} are permuted within each {tile}, {how}"
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
