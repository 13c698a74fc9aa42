"""Says how a wrong output differs from the right one: where, and what stands there instead.

Where is found on the whole mask of wrong elements. What stands there is found on some thousand of
them: each guess names the element, or the changed input, whose right value they would hold.
Sentences are fixed phrases: the patterns of ``knowledge/symptoms/error-shape.yaml`` match them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

import torch

from kernelkb.measure.worker.judge.compare.changed_steps import (
    compare_precisions,
    find_changed_step,
)
from kernelkb.measure.worker.judge.compare.input_changes import find_changed_input
from kernelkb.measure.worker.judge.compare.wrong_values import (
    CHANCE,
    DENSE,
    FEW,
    SAMPLE,
    SHIFTS,
    SURE,
    TILES,
    AxisPlace,
    ElementSource,
    SearchLimit,
    WrongOutput,
    WrongSample,
    draw_sample,
    find_source,
    holds_at,
    is_sure,
    move,
    name_axis,
    name_count,
    name_span,
    pick,
    ravel,
)

PERIODS = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 80, 96, 128, 192, 256)
"""Tiles, fragments, warps and vectors."""
_FAINT = 0.05
"""An index with a smaller part of the most wrong elements of one index counts as right."""
_ALIKE = 1e-3
_LEAST_ALIKE = 4
_CLEAR = 4.0
"""Times what a right element may be off: smaller differences have no shape."""
_LEAST_INPUTS = 2
_MOSTLY = 0.5
_TINY = 64
"""Of elements in an output: a few wrong ones of so few show nothing but their place."""
_LEAST_ROUNDED = 16
_SMALL = 0.05
"""Errors up to this share of the outputs' root mean square may be of rounding."""
_ONE_SIDED = 0.7
_MAX_LISTED = 8
_LEAST_NAMED = 16
"""Of sizes that may be in a factor: powers of two are roots of smaller ones by chance."""
_LEAST_CUT = 8
_LEAST_TILE = 16
"""From so many on an end that divides the size is a tile rather than the rest of a larger one."""
_MOST = 0.4
_ABOVE_NOISE = 100.0
"""Times the limit of the error: smaller values may be right by chance."""


def describe_error_shape(given: WrongOutput) -> list[str]:
    """Return sentences on a wrong output: what stands where, then where alone, then how many.

    It costs up to a second for 16 million elements on a CPU, and that again for runs of the
    reference. Nothing that happens in it is an error: what cannot be told is left out.
    """
    if not given.wrong.numel() or not bool(given.wrong.any()):
        return []
    if not given.wrong.dim():
        given = given._replace(
            output=given.output.reshape(1),
            oracle=given.oracle.reshape(1),
            wrong=given.wrong.reshape(1),
            is_poison=None if given.is_poison is None else given.is_poison.reshape(1),
        )
    places = list(_find_places(given.wrong))
    sample = draw_sample(given)
    found = list(_describe_values(given, sample, places))
    where = list(_describe_diagonal(given.wrong, sample))
    where = where or list(_describe_run(given.wrong))
    where = where or [_tell_place(place) for place in places]
    where = where or [_describe_spread(given.wrong)]
    return [*found, *where, *_describe_sizes(given, sample), *_count(given.wrong)]


def _count(wrong: torch.Tensor) -> Iterator[str]:
    count = int(wrong.count_nonzero())
    yield f"{count:,} of {wrong.numel():,} elements, first {_find_end(wrong, 0)}"
    if count > 1:
        yield f"last {_find_end(wrong, -1)}"


def _tell_place(place: AxisPlace) -> str:
    only = "" if place.is_most else "only "
    return f"{only}{place.text} {place.verb} wrong"


def _describe_run(wrong: torch.Tensor) -> Iterator[str]:
    """Yield that the wrong elements are one stretch of the memory that begins or ends in a row."""
    first, last = (
        int(ravel(torch.tensor([_find_end(wrong, end)]), wrong.shape)) for end in (0, -1)
    )
    width, total = wrong.shape[-1], wrong.numel()
    is_cut = first % width > 0 or (last + 1) % width > 0
    count = last - first + 1
    if wrong.dim() == 1 or not is_cut or first // width == last // width or count == total:
        return
    if int(wrong.count_nonzero()) < SURE * count:
        return
    if last == total - 1:
        yield f"only the last {count} of {total} elements in memory order are wrong"
    elif first == 0:
        yield f"only the first {count} of {total} elements in memory order are wrong"
    else:
        yield f"only elements {first} to {last} of {total} in memory order are wrong"


def _find_end(wrong: torch.Tensor, end: int) -> tuple[int, ...]:
    """Return the indices of the first wrong element (0) or of the last one (-1)."""
    found = []
    for _ in range(wrong.dim()):
        has = wrong.reshape(wrong.shape[0], -1).any(1)
        found.append(int(has.nonzero()[end]))
        wrong = wrong[found[-1]]
    return tuple(found)


# Where.


def _find_places(wrong: torch.Tensor) -> Iterator[AxisPlace]:
    for axis in range(wrong.dim()):
        others = [other for other in range(wrong.dim()) if other != axis]
        counts = wrong.sum(others) if others else wrong.long()
        if place := _find_place(counts.cpu(), axis, wrong.dim()):
            yield place


def _find_place(counts: torch.Tensor, axis: int, dims: int) -> AxisPlace | None:
    """Return where along an axis: an interval, or the same part of each tile; None: all over."""
    size = len(counts)
    has = counts > 0
    strong = counts > _FAINT * int(counts.max())
    if int(counts[strong].sum()) >= (2 - SURE) ** -1 * int(counts.sum()):
        has = strong
    at = has.nonzero().flatten()
    if size < 2 or len(at) == size:
        return None
    first, last = int(at[0]), int(at[-1])
    name = name_axis(axis, dims)
    if last - first + 1 == len(at):
        text = _describe_interval(first, last, size, axis, dims)
        return AxisPlace(axis, text, first, last, is_most=first == 1 and last == size - 1 > 1)
    if place := _find_residues(at, size, axis, dims):
        return place
    # So many indices are hit by as many elements at random places.
    random_count = size * (1 - (1 - 1 / size) ** int(counts.sum()))
    if len(at) > min(0.5 * size, 0.7 * random_count):
        return None
    return AxisPlace(axis, f"{len(at)} of {size} {name}, from {first} to {last},", first, last)


def _describe_interval(first: int, last: int, size: int, axis: int, dims: int) -> str:
    count, name = last - first + 1, name_axis(axis, dims)
    number = f"{count} " if count > 1 else ""
    if first == 0:
        return f"the first {number}of {size} {name}"
    if last < size - 1:
        return f"{name_span(first, last, axis, dims)} of {size}"
    if first == 1 and size > 2:
        return f"all but the first of {size} {name}"
    is_whole = count in TILES and size % count == 0
    cut = [tile for tile in TILES if count < tile <= size and size % tile == count]
    if cut and size >= _LEAST_CUT and not (is_whole and count >= _LEAST_TILE):
        tiles = f"{cut[0]}" if len(cut) == 1 else f"{cut[0]} to {cut[-1]}"
        return f"the last {number}of {size} {name}, an incomplete tile of {tiles},"
    if is_whole:
        return f"the last {number}of {size} {name}, a whole tile,"
    return f"the last {number}of {size} {name}"


def _find_residues(at: torch.Tensor, size: int, axis: int, dims: int) -> AxisPlace | None:
    """Return which part of each tile; of several sizes of tiles the smallest that says it all."""
    name = name_axis(axis, dims)
    for period in PERIODS:
        if 2 * period > size:
            return None
        residues = (at % period).unique()
        count = len(residues)
        if count == period or len(at) * math.log(period / count) < -math.log(CHANCE / 10):
            continue
        tiles = len((at // period).unique())
        if len(at) < SURE * count * (size // period) or tiles < size // period:
            continue
        first, last = int(residues[0]), int(residues[-1])
        if last - first + 1 == count:
            text = f"{name_span(first, last, axis, dims)} of each {period}"
        elif count <= _MAX_LISTED:
            text = f"{name} {', '.join(map(str, residues.tolist()))} of each {period}"
        else:
            continue
        return AxisPlace(axis, text, first, last, period)
    return None


def _describe_diagonal(wrong: torch.Tensor, sample: WrongSample) -> Iterator[str]:
    """Yield that only one side of a diagonal is wrong, or tiles on it."""
    if wrong.dim() < 2 or min(wrong.shape[-2:]) < 4 or len(sample.got) < 8:
        return
    if max(wrong.shape[-2:]) > 2 * min(wrong.shape[-2:]):
        return  # nearly all of a wide matrix is above its diagonal
    row, column = sample.where[:, -2], sample.where[:, -1]
    texts = {
        "elements on the diagonal": torch.eq,
        "elements below the diagonal": torch.gt,
        "elements above the diagonal": torch.lt,
        "elements on and below the diagonal": torch.ge,
        "elements on and above the diagonal": torch.le,
    }
    count = int(wrong.count_nonzero()) * wrong.shape[-2] * wrong.shape[-1] / wrong.numel()
    for text, compare in texts.items():
        if bool(compare(row, column).all()) and 2 * count > _count_pairs(wrong, compare):
            yield f"only {text} are wrong"
            return
    for tile in TILES[2:]:
        side = min(wrong.shape[-2:])
        is_on = bool((row // tile == column // tile).all())
        has_all = len((row // tile).unique()) >= max(2, SURE * (side // tile))
        if 2 * tile < side and is_on and has_all and count > tile * side / 4:
            yield f"only the tiles of {tile} by {tile} on the diagonal are wrong"
            return


def _count_pairs(
    wrong: torch.Tensor, compare: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> int:
    """Return for how many pairs of a row and a column a comparison holds."""
    rows, columns = (torch.arange(size) for size in wrong.shape[-2:])
    if compare is torch.eq:
        return min(len(rows), len(columns))
    return int(compare(rows[:, None], columns).count_nonzero())


def _describe_spread(wrong: torch.Tensor) -> str:
    share = int(wrong.count_nonzero()) / wrong.numel()
    if wrong.dim() > 1 and min(wrong.shape[-2:]) > 4 and not bool(wrong[..., 1:-1, 1:-1].any()):
        return "only the border of rows and columns is wrong"
    if share > 1 - DENSE:
        return "all elements are wrong" if share == 1 else "nearly all elements are wrong"
    if share > _MOST:
        return "most elements are wrong, all over the output"
    return "wrong elements are scattered over the whole output"


# What stands there.


def _describe_values(
    given: WrongOutput, sample: WrongSample, places: Sequence[AxisPlace]
) -> Iterator[str]:
    """Yield what stands in the wrong elements: the first that holds, or nothing."""
    plain = list(_describe_plain(sample, is_float=given.output.is_floating_point()))
    if plain:
        yield from plain
        if not sample.has_poison and (step := find_changed_step(given, sample, SearchLimit())):
            yield step.text
        return
    if told := _describe_unwritten(given):
        yield told
        is_poison = given.is_poison.reshape(-1) if given.is_poison is not None else None
        if is_poison is not None:
            sample = pick(sample, ~is_poison[ravel(sample.where, sample.shape)].cpu())
    nans = float(sample.got.isnan().double().mean()) if len(sample.got) else 0.0
    if nans:
        yield f"{max(nans, 0.01):.0%} of them are NaN"
        sample = pick(sample, ~sample.got.isnan())
        if nans > _MOSTLY or len(sample.got) < _LEAST_ROUNDED:
            return
    elif len(sample.got) < FEW and len(sample.flat) < _TINY:
        return
    found = find_source(sample, places) or _find_copied(given, sample)
    is_line = len(sample.where[:, -1].unique()) == 1  # one column has one value of each vector
    limits = SearchLimit(), SearchLimit()
    found = found or (_find_changed(given, sample, *limits) if is_line else None)
    found = found or _describe_alike(given, sample)
    found = found or (None if is_line else _find_changed(given, sample, *limits))
    found = found or next(_describe_lines(sample), None)
    found = found or _find_before_addend(given, sample, places) or _describe_added(given, sample)
    found = found or _find_whole(given, sample) or _find_divisor(given, sample)
    if found:
        yield found
    else:
        yield from _describe_small(given, sample)
        if any(limit.was_cut for limit in limits):
            yield "not all usual mistakes were tried: it took too long"


def _find_changed(
    given: WrongOutput, sample: WrongSample, for_inputs: SearchLimit, for_steps: SearchLimit
) -> str | None:
    """Return the input or the step that was changed; first one that keeps right elements right."""
    told = find_changed_input(given, sample, for_inputs)
    if told is None or not told.keeps_right:
        step = find_changed_step(given, sample, for_steps)
        told = step if step and (told is None or step.keeps_right) else told
    return told.text if told else None


def _describe_unwritten(given: WrongOutput) -> str | None:
    """Say which part of the wrong elements were never written, where others were written wrong."""
    if given.is_poison is None:
        return None
    unwritten = given.wrong & given.is_poison
    count, wrong = int(unwritten.count_nonzero()), int(given.wrong.count_nonzero())
    if not _FAINT < count / wrong < 1:
        return None
    places = ", ".join(place.text.rstrip(",") for place in _find_places(unwritten))
    return f"{count:,} of them were never written" + (f": {places}" if places else "")


def _find_whole(given: WrongOutput, sample: WrongSample) -> str | None:
    """Say that wrong elements are whole numbers where right ones are not."""
    got, right = sample.got, sample.right
    if not given.output.is_floating_point() or len(got) < _LEAST_ROUNDED:
        return None
    are_whole = bool((got.round() == got).all()) and len(got.unique()) > 1
    is_fraction = float((right.round() != right).double().mean()) > _MOSTLY
    return "they are whole numbers, and what is right is not" if are_whole and is_fraction else None


def _find_divisor(given: WrongOutput, sample: WrongSample) -> str | None:
    """Say that integers are off by multiples of one number: an index inside of a tile, a carry."""
    if given.output.is_floating_point() or len(sample.got) < 8:
        return None
    error = (sample.got - sample.right).abs().long()
    divisor = math.gcd(*error.tolist())
    is_many = len(error.unique()) > 2 or divisor in (2**8, 2**16, 2**32)
    return f"they are off by multiples of {divisor}" if divisor > 3 and is_many else None


def _find_copied(given: WrongOutput, sample: WrongSample) -> str | None:
    """Return which input stands in the wrong elements; None: none of the output's size."""
    for name, tensor in given.inputs:
        if tensor.numel() == len(sample.flat):
            flat = tensor.reshape(-1)
            near = (flat[ravel(sample.where, sample.shape)].double() - sample.got).abs()
            if is_sure(near <= sample.allowed, sample, guesses=len(given.inputs)):
                return f"they equal the input {name}: copied, not computed"
    return None


def _find_before_addend(
    given: WrongOutput, sample: WrongSample, places: Sequence[AxisPlace]
) -> str | None:
    """Return what is wrong before a vector, such as a bias, is added; None: nothing is found.

    A kernel that permutes its sums adds the bias of the right place to them.
    """
    for at, (name, tensor) in enumerate(given.inputs):
        is_vector = tensor.is_floating_point() and tensor.dim() == 1
        if given.rerun is None or not is_vector or len(given.inputs) < _LEAST_INPUTS:
            continue
        inputs = [one for _, one in given.inputs]
        inputs[at] = torch.zeros_like(tensor)
        with suppress(RuntimeError, ValueError, IndexError, TypeError):
            bare = given.rerun(inputs)
            output = given.output.to(given.oracle.dtype) - (given.oracle - bare)
            own = given._replace(output=output, oracle=bare, rerun=None, inputs=())
            flat, own_flat = bare.reshape(-1), output.reshape(-1)
            places_of = ravel(sample.where, sample.shape)
            moved = sample._replace(
                flat=flat, got=own_flat[places_of].double(), right=flat[places_of].double()
            )
            if found := find_source(moved, places) or _describe_added(own, moved):
                return f"before {name} is added, {found}"
            error = float((sample.got - sample.right).abs().median())
            is_large = error > _SMALL * float(tensor.abs().double().mean())
            if is_large and "off by" in next(_describe_lines(moved._replace(got=sample.got)), ""):
                return f"{name} is added along another axis"
    return None


def _describe_plain(sample: WrongSample, *, is_float: bool) -> Iterator[str]:
    """Yield what needs no comparison: unwritten, NaN, infinite, zero, one constant."""
    got = sample.got
    if sample.has_poison:
        yield "they were never written"
    elif len(got) < FEW and sample.flat.numel() < _TINY and not bool(got.isnan().all()):
        return
    elif bool(got.isnan().all()):
        yield "they are NaN, computed or loaded"
        if bool(sample.right.isinf().all()):
            yield "what is right is infinite there"
    elif bool(got.isinf().all()):
        yield "they are infinite"
    elif float((got == 0).double().mean()) >= SURE:
        yield "they are zero"
    elif len(got) > 3 and float((got == got.median()).double().mean()) >= SURE:
        spread = float((sample.right - sample.right.median()).abs().max())
        if is_float or spread > 0:
            yield f"they all are {float(got.median()):.6g}"


def _describe_sizes(given: WrongOutput, sample: WrongSample) -> Iterator[str]:
    """Yield that wrong elements have values of one sign or size, and right ones others."""
    if len(sample.got) < 8 or bool(given.wrong.all()):
        return
    flat = given.wrong.reshape(-1)
    generator = torch.Generator().manual_seed(2)
    at = torch.randint(len(flat), (4 * SAMPLE,), generator=generator).to(flat.device)
    fine = sample.flat[at[~flat[at]]].double()
    bad = sample.right[sample.right.isfinite()]
    if len(fine) < 8 or len(bad) < 8:
        return
    if bool((bad < 0).all()) and float((fine < 0).double().mean()) < _FAINT:
        yield "only elements whose right value is negative are wrong"
    elif bool((bad > 0).all()) and float((fine > 0).double().mean()) < _FAINT:
        yield "only elements whose right value is positive are wrong"
    elif float(bad.abs().min()) > float(fine.abs().max()):
        if float(fine.abs().max()) > _ABOVE_NOISE * given.atol:
            yield f"only values beyond {float(fine.abs().max()):.4g} are wrong"
    elif float(bad.abs().max()) < float(fine.abs().min()):
        yield f"only values below {float(fine.abs().min()):.4g} are wrong"


# Factors, offsets and rounding.


def _describe_alike(given: WrongOutput, sample: WrongSample) -> str | None:
    """Return the factor or the offset that all wrong elements share; None where there is none."""
    few, ratio, offset, slack = _compare_by_element(sample)
    if len(ratio) < _LEAST_ALIKE:
        return None
    clear_ratio = (ratio - 1).abs() > _CLEAR * slack
    clear_offset = offset.abs() > _CLEAR * few.allowed
    if _are_alike(ratio, slack * ratio.abs().clamp(min=1.0)) and _holds_mostly(clear_ratio):
        factor = float(ratio.median())
        if math.isclose(factor, -1, rel_tol=_ALIKE):
            return "they have the other sign"
        return f"they are {factor:.5g} times what is right{_name_factor(given, factor)}"
    is_alike = _are_alike(offset, 2 * few.allowed + _ALIKE / 10 * offset.abs().max())
    if is_alike and _holds_mostly(clear_offset):
        return f"they are off by {float(offset.median()):.5g}, all alike"
    return None


def _compare_by_element(
    sample: WrongSample,
) -> tuple[WrongSample, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return elements that are not small, their factors and offsets, and the factors' error."""
    finite = sample.right[sample.right.isfinite()]
    scale = float(finite.square().mean().sqrt()) if len(finite) else 0.0
    known = sample.got.isfinite() & sample.right.isfinite()
    few = pick(sample, known & (sample.right.abs() > max(0.05 * scale, 1e-300)))
    slack = 2 * few.allowed / few.right.abs() + _ALIKE / 10
    return few, few.got / few.right, few.got - few.right, slack


def _holds_mostly(holds: torch.Tensor) -> bool:
    return float(holds.double().mean()) > 0.5


def _are_alike(values: torch.Tensor, slack: torch.Tensor) -> bool:
    return float(((values - values.median()).abs() <= slack).double().mean()) >= SURE


def _describe_lines(sample: WrongSample) -> Iterator[str]:
    """Yield that the elements of each row, or of each column, share a factor or an offset."""
    few, ratio, offset, slack = _compare_by_element(sample)
    for axis in range(len(few.shape) - 1, -1, -1):
        if len(few.shape) < 2 or few.shape[axis] < 2:
            continue
        # All elements with the same index along this axis are one group.
        group = few.where[:, axis]
        one = name_axis(axis, len(few.shape), is_one=True)
        is_clear = _holds_mostly(offset.abs() > _CLEAR * few.allowed)
        if is_clear and _share_by_group(ratio, slack * 2 * ratio.abs().clamp(min=1.0), group):
            yield f"each {one} has a factor of its own, between {_range(ratio)}"
        if is_clear and _share_by_group(offset, 4 * few.allowed, group):
            yield f"each {one} is off by an amount of its own, between {_range(offset)}"


def _range(values: torch.Tensor) -> str:
    return f"{float(values.min()):.3g} and {float(values.max()):.3g}"


def _share_by_group(values: torch.Tensor, slack: torch.Tensor, group: torch.Tensor) -> bool:
    """Return whether values of one group are alike, where there are several of several groups."""
    names, number = group.unique(return_inverse=True)
    counts = torch.bincount(number)
    if len(names) < 3 or int((counts >= 2).count_nonzero()) < 3:
        return False
    order = torch.argsort(number, stable=True)
    ends = counts.cumsum(0)
    firsts = values[order][ends - counts]
    several = counts[number] >= 2
    near = (values - firsts[number]).abs() <= slack
    return float(near[several].double().mean()) >= SURE and int(several.count_nonzero()) >= 12


def _name_factor(given: WrongOutput, factor: float) -> str:
    """Return what a factor may be: a power of two, or made of a size; empty: nothing known."""
    sizes = {size for _, tensor in given.inputs for size in tensor.shape}
    sizes |= set(given.oracle.shape)
    sizes = {size for size in sizes if size >= _LEAST_NAMED}
    named = {f"2^{power}": 2.0**power for power in range(-16, 17) if power}
    named |= {f"1/sqrt({size})": size**-0.5 for size in sorted(sizes)}
    named |= {f"sqrt({size})": size**0.5 for size in sorted(sizes)}
    named |= {f"1/{size}": 1 / size for size in sorted(sizes)}
    named |= {f"{size}, a size": float(size) for size in sorted(sizes)}
    named |= {"log2(e)": math.log2(math.e), "ln(2)": math.log(2)}
    fits = [n for n, value in named.items() if math.isclose(abs(factor), value, rel_tol=_ALIKE)]
    return f" ({' or '.join(fits)})" if fits else ""


def _describe_added(given: WrongOutput, sample: WrongSample) -> str | None:
    """Return what was added to what is right: what belongs, or stands, elsewhere; None: nothing."""
    if len(sample.got) < _LEAST_ALIKE:
        return None
    extra = sample._replace(got=sample.got - sample.right, allowed=2 * sample.allowed)
    output = given.output.reshape(-1)
    for axis in range(len(sample.shape) - 1, -1, -1):
        index, size = sample.where[:, axis], sample.shape[axis]
        for shift in (shift for shift in SHIFTS if shift < size):
            at = move(sample, axis, index - shift)
            if not bool((at >= 0).any()):
                continue
            for flat in (sample.flat, output):
                if holds_at(ElementSource("", at), extra._replace(flat=flat)):
                    count = name_count(shift, axis, len(sample.shape))
                    return f"to what is right is added what stands {count} before"
    return None


def _describe_small(given: WrongOutput, sample: WrongSample) -> Iterator[str]:
    """Yield that errors are as of rounding to a narrower type, and whether they grow."""
    finite = sample.got.isfinite() & sample.right.isfinite()
    error, right = (sample.got - sample.right)[finite], sample.right[finite]
    if len(error) < _LEAST_ROUNDED:
        return
    scale = float(right.square().mean().sqrt())
    part = float(error.square().mean().sqrt()) / scale if scale else math.inf
    if grown := _find_growth(sample):
        yield grown
    if part > _SMALL:
        return
    for dtype in (torch.bfloat16, torch.float16):
        if _is_rounded(given.output.dtype, sample.got, right.float().double(), dtype):
            yield f"they are rounded to {str(dtype).removeprefix('torch.')}"
            return
    bias = abs(float(error.mean())) / max(float(error.abs().mean()), 1e-300)
    way = "to one side" if bias > _ONE_SIDED else "to both sides"
    yield f"their errors are small, {part:.1g} of the outputs' size, {way}"
    if told := compare_precisions(given, sample):
        yield told


def _is_rounded(
    own: torch.dtype, values: torch.Tensor, right: torch.Tensor, dtype: torch.dtype
) -> bool:
    """Return whether values of a wider type are all values of a narrower one."""
    is_wider = own.is_floating_point and torch.finfo(own).eps < torch.finfo(dtype).eps
    return is_wider and _are_of(dtype, values) and not _are_of(dtype, right)


def _are_of(dtype: torch.dtype, values: torch.Tensor) -> bool:
    return float((values.to(dtype).double() == values).double().mean()) > SURE


def _find_growth(sample: WrongSample) -> str | None:
    """Return along which axis errors grow from quarter to quarter; None: along none."""
    error = (sample.got - sample.right).abs().nan_to_num(0.0, 0.0, 0.0)
    for axis in range(len(sample.shape) - 1, -1, -1):
        size = sample.shape[axis]
        part = sample.where[:, axis] * 4 // size
        if size < _LEAST_ROUNDED or len(error) < SAMPLE // 16 or len(part.unique()) < 4:
            continue
        sizes = [float(error[part == at].square().mean().sqrt()) for at in range(4)]
        grows = all(later > 1.15 * earlier for earlier, later in pairwise(sizes))
        if grows and sizes[3] > 2 * sizes[0]:
            name = name_axis(axis, len(sample.shape))
            return f"the error grows along the {name}, {sizes[3] / max(sizes[0], 1e-300):.2g} times"
    return None
