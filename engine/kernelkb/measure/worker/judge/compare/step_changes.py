"""What usual mistakes make of a reference's steps: a factor forgotten, a mask shifted.

The words are fixed: the patterns of ``knowledge/symptoms/changed-steps.yaml`` match them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

import torch

from kernelkb.measure.worker.judge.compare.input_changes import iter_input_changes
from kernelkb.measure.worker.judge.compare.steps import (
    Made,
    Maker,
    ReferenceStep,
    StepChange,
    find_maker,
    get_root,
    is_float,
)
from kernelkb.measure.worker.judge.compare.sum_changes import (
    iter_narrow_sums,
    iter_reductions,
    iter_rescaled,
    iter_scans,
)
from kernelkb.measure.worker.judge.compare.wrong_values import name_dtype

_TILES = (4, 8, 16, 32, 64, 128, 256)
_NARROW = (torch.bfloat16, torch.float16)
_ADDING = ("add", "sub")
_LOGICAL = ("bitwise_and", "logical_and", "bitwise_or", "logical_or")
_BINARY = (*_ADDING, "mul", "div", "maximum", "minimum", "pow", *_LOGICAL)
_UNARY = frozenset(
    ("exp", "exp2", "log", "log1p", "expm1", "sqrt", "rsqrt", "erf", "tanh", "sigmoid", "relu",
     "abs", "neg", "reciprocal", "round", "floor", "ceil", "trunc", "square", "pow", "sin", "cos")
)  # fmt: skip
_OTHERS = {
    "exp": ("exp2",), "exp2": ("exp",), "log": ("log2", "log10", "log1p"), "log2": ("log",),
    "sqrt": ("square", "rsqrt"), "rsqrt": ("reciprocal", "sqrt"), "tanh": ("sigmoid",),
    "sigmoid": ("tanh",), "sin": ("cos",), "cos": ("sin",), "ceil": ("floor",),
    "floor": ("ceil", "round", "trunc"), "reciprocal": ("rsqrt",),
}  # fmt: skip
_PRODUCTS = ("mm", "bmm", "mv", "dot", "convolution")
_MASKING = ("where", "masked_fill")
_COMPARING = {"lt": torch.le, "le": torch.lt, "gt": torch.ge, "ge": torch.gt}
_INDEXING = ("index", "index_select", "gather", "embedding", "index_add", "scatter_add", "scatter")
_OF_AXIS = ("_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp")
_LIMITING = ("clamp", "clamp_min", "clamp_max", "relu", "hardtanh")
_MAX_OPERANDS = 12
"""Results that are tried in place of an operand."""


def iter_changes(
    steps: Sequence[ReferenceStep], inputs: set[int], *, is_small: bool
) -> Iterator[StepChange]:
    """Yield changes of all steps, the likeliest kinds first.

    Args:
        steps: As recorded.
        inputs: Addresses of the reference's inputs, whose own changes are tried elsewhere.
        is_small: Whether the errors are small: then roundings come first.
    """
    if is_small:
        yield from _iter_rounded(steps)
    wholes = (_iter_left_out, _iter_binary, _iter_forms, iter_reductions, _iter_masks, iter_scans)
    others = (_iter_limits, _iter_indices, _iter_convolutions, _iter_pools, iter_rescaled)
    last = (_iter_broadcast, _iter_constants, _iter_wrapped, _iter_repeats, _iter_other_operands)
    for make in (*wholes, *others, *last):
        for step in steps:
            if not step.moves_only or make in (_iter_wrapped, _iter_repeats):
                yield from _list(step, steps, make)
    for step in steps:
        if step.name in _PRODUCTS:
            yield from _list(step, steps, lambda one, all_: _iter_operands(one, all_, inputs))


def _list(step: ReferenceStep, steps: Sequence[ReferenceStep], make: Maker) -> Iterator[StepChange]:
    """Yield the changes of one kind until one of them cannot be made."""
    shapes = tuple(tuple(own.shape) for own in step.args if isinstance(own, torch.Tensor))
    with suppress(Exception):  # a step of other arguments than are known
        for text, output in make(step, steps):
            kind = step.strip(text), shapes
            yield StepChange(step.number, text, output, make=make, kind=kind)


def _iter_rounded(steps: Sequence[ReferenceStep]) -> Iterator[StepChange]:
    last = next((step for step in reversed(steps) if not step.moves_only), None)
    for step in steps:
        if step is last or (last is not None and step.output is last.output):
            continue  # the output itself, which is looked at elsewhere
        with suppress(Exception):  # as above
            for text, output in chain(_iter_narrow(step), iter_narrow_sums(step)):
                yield StepChange(step.number, text, output, is_rounding=True)


# Steps of each element.


def _iter_left_out(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    first = step.args[0] if step.args else None
    if not is_float(first) or not is_float(step.output) or first.shape != step.output.shape:
        return
    if step.name in _UNARY:
        yield f"{step.label} were left out", first
        yield f"{step.label} had the other sign", -step.output
    for other in _OTHERS.get(step.name, ()):
        yield f"{step.label} were {other}", getattr(torch, other)(first)
    if step.name == "round":
        yield f"{step.label} cut off towards zero", first.trunc()
        yield f"{step.label} went down", first.floor()
        yield f"{step.label} took halves away from zero", first.sign() * (first.abs() + 0.5).floor()


def _iter_forms(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    """Yield other formulas that bear the same name, and another axis."""
    value = step.args[0] if step.args else None
    if step.name == "gelu" and is_float(value):
        is_tanh = step.kwargs.get("approximate") == "tanh"
        other, told = ("none", "erf") if is_tanh else ("tanh", "tanh")
        text = f"{step.label} were computed by {told}"
        yield text, torch.nn.functional.gelu(value, approximate=other)
        yield f"{step.label} were x * sigmoid(1.702 x)", value * (1.702 * value).sigmoid()
    if step.name in _OF_AXIS and is_float(value):
        for axis in range(value.dim()):
            if axis != step.args[1] % value.dim():
                args = (value, axis, *step.args[2:])
                text = f"{step.label} ran along axis {axis}"
                yield text, step.function(*args, **step.kwargs)


def _iter_binary(step: ReferenceStep, steps: Sequence[ReferenceStep]) -> Made:
    if step.name not in _BINARY or len(step.args) < 2 or step.kwargs:
        return  # a factor of the second operand, a rounding
    left, right = step.args[:2]
    shape = step.output.shape
    told = "second operand" if isinstance(right, torch.Tensor) else f"{right:g}"
    is_mask = step.name == "add" and is_float(right) and bool(right.isinf().any())
    if is_float(left):
        text = (
            f"the mask of {step.label} were left out" if is_mask else f"{step.label} had no {told}"
        )
        yield text, left.expand(shape).clone()
    if is_float(right) and step.name != "div":
        alone = -right if step.name == "sub" else right
        yield f"{step.label} had no first operand", alone.expand(shape).clone()
    if step.name in ("sub", "div") and isinstance(right, torch.Tensor):
        yield f"the operands of {step.label} were exchanged", step.function(right, left)
    if step.name == "add" and is_float(right):
        yield f"{step.label} subtracted", left - right
    if step.name == "sub" and is_float(right):
        yield f"{step.label} added", left + right
    if step.name in _LOGICAL:
        yield f"{step.label} had no second operand", left.expand(shape).clone()
        yield f"{step.label} had no first operand", right.expand(shape).clone()
    if step.name in ("mul", "div"):
        other = torch.div if step.name == "mul" else torch.mul
        yield f"{step.label} applied its {told} twice", step.function(step.output, right)
        yield f"{step.label} were a {other.__name__}", other(left, right)
    if step.name in ("maximum", "minimum"):
        other = torch.minimum if step.name == "maximum" else torch.maximum
        yield f"{step.label} were a {other.__name__}", other(left, right)
    if is_mask:
        masked = right.isinf().expand(shape)
        text = f"what the mask of {step.label} hides were 0, not minus infinity"
        yield text, torch.where(masked, 0.0, step.output)
        yield from _iter_additive_masks(step, left, right)
    yield from _iter_moved_epsilon(step, steps)


def _iter_other_operands(step: ReferenceStep, steps: Sequence[ReferenceStep]) -> Made:
    """Yield what a step gives that takes another value of the same shape for one of its own."""
    if step.name not in (*_BINARY, *_UNARY, *_PRODUCTS):
        return
    for at, own in enumerate(step.args[:2]):
        if not is_float(own):
            continue
        found: dict[int, tuple[str, torch.Tensor]] = {}
        for one in steps:
            for value in (*one.args, one.output):
                is_alike = is_float(value) and value.shape == own.shape and value.dtype == own.dtype
                if is_alike and value.data_ptr() != own.data_ptr():
                    maker = find_maker(value, steps)
                    told = maker.label if maker else "an input"
                    found.setdefault(value.data_ptr(), (f"{told}, not its own,", value))
        for told, value in list(found.values())[:_MAX_OPERANDS]:
            args = list(step.args)
            args[at] = value
            which = ("first", "second")[at]
            yield (
                f"{step.label} took {told} as its {which} operand",
                step.function(*args, **step.kwargs),
            )


def _iter_moved_epsilon(step: ReferenceStep, steps: Sequence[ReferenceStep]) -> Made:
    """Yield what a root or a divisor gives where its epsilon is added at another place."""
    if step.name != "add" or isinstance(step.args[1], torch.Tensor):
        return
    value, epsilon = step.args[:2]
    for root in (one for one in steps if one.name in ("sqrt", "rsqrt")):
        if find_maker(root.args[0], steps) is step:
            outside = value.sqrt() + epsilon
            square = outside.square()  # whose root is what is added outside
            yield f"{step.label} added its {epsilon:g} outside of {root.label}", square
            return
    for root in (one for one in steps if one.name in ("sqrt", "rsqrt")):
        if root.number < step.number and find_maker(value, steps) is root:
            inside = root.function(root.args[0] + epsilon)
            yield f"{step.label} added its {epsilon:g} inside of {root.label}", inside


def _iter_constants(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    """Yield other values of a number that a step takes."""
    if step.name not in _BINARY or len(step.args) < 2 or not is_float(step.args[0]):
        return
    left, value = step.args[:2]
    if isinstance(value, (torch.Tensor, bool)) or value == 0:
        return
    others = [value * 10, value / 10, value * 2, value / 2, value + 1, value - 1, -value]
    others += [value * value, abs(value) ** 0.5, 1 / value]
    for other in others:
        if other != value:
            text = f"{step.label} had {other:.4g} in place of {value:.4g}"
            yield text, step.function(left, other, **step.kwargs)


def _iter_limits(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    if step.name not in _LIMITING or not isinstance(step.args[0], torch.Tensor):
        return
    value, bounds = step.args[0], [*step.args[1:3]]
    yield f"{step.label} had no limits", value
    if step.name in ("clamp", "hardtanh") and len(bounds) == 2 and None not in bounds:
        yield f"{step.label} had no lower limit", value.clamp(max=bounds[1])
        yield f"{step.label} had no upper limit", value.clamp(min=bounds[0])
    if step.name == "relu":
        yield f"{step.label} took the absolute value", value.abs()


def _iter_broadcast(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    """Yield an operand that is spread over the result, taken at another index."""
    if step.name not in _BINARY or len(step.args) < 2:
        return
    shape = step.output.shape
    for at, own in enumerate(step.args[:2]):
        if not isinstance(own, torch.Tensor) or own.numel() in (1, step.output.numel()):
            continue

        def put(other: torch.Tensor, at: int = at) -> torch.Tensor:
            pair = list(step.args[:2])
            pair[at] = other
            result: torch.Tensor = step.function(*pair, **step.kwargs)
            return result

        which = f"the {('first', 'second')[at]} operand of {step.label}"
        yield from ((f"{which} were {text}", put(other)) for text, other in _move(own, shape))


def _move(own: torch.Tensor, shape: Sequence[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a small tensor that is read at other indices of the result that it is spread over."""
    wide = own.reshape([1] * (len(shape) - own.dim()) + list(own.shape))
    for axis, size in enumerate(wide.shape):
        if size < 2:
            continue
        index = torch.arange(size, device=own.device)
        moves = [("1 before", (index - 1) % size), ("1 behind", (index + 1) % size)]
        moves += [("the first everywhere", index * 0)]
        moves += [(f"the index inside of each {tile}", index % tile) for tile in _TILES]
        moves += [(f"the first of each {tile}", index // tile * tile) for tile in _TILES[:-2]]
        for text, where in moves:
            told = f"read at {text}" if text[0] == "t" else f"read {text}"
            yield f"{told} along axis {axis}", wide.index_select(axis, where)
        for other, count in enumerate(shape):
            if other != axis and wide.shape[other] == 1 and count > 1:
                line = wide.transpose(axis, other)
                index = torch.arange(count, device=own.device) % size
                text = f"read along axis {other} instead of {axis}"
                yield text, line.index_select(other, index)


# Masks and indices.


def _iter_masks(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    if step.name in ("tril", "triu"):
        asked = step.args[1] if len(step.args) > 1 else 0
        for shift in (1, -1):
            yield _tell_shift(step, shift), step.function(step.args[0], asked + shift)
        yield f"the mask of {step.label} were left out", step.args[0]
        for tile in _TILES[1:]:
            yield from _iter_tiled(step, step.output, lambda mask: mask, tile)
    elif step.name in _COMPARING:
        left, right = step.args[:2]
        other = _COMPARING[step.name](left, right)
        yield f"the limit of {step.label} were on the other side", other
        yield f"the mask of {step.label} were inverted", ~step.output
        yield f"the mask of {step.label} were left out", torch.ones_like(step.output)
        for tile in _TILES[1:]:
            yield from _iter_tiled(step, step.output, lambda mask: mask, tile)
    elif step.name in _MASKING:
        yield from _iter_where(step)


def _tell_shift(step: ReferenceStep, shift: int) -> str:
    return f"the mask of {step.label} were shifted by {shift}"


def _iter_where(step: ReferenceStep) -> Made:
    """Yield a selection by another mask, or with another value in what it hides."""
    is_where = step.name == "where"
    mask = step.args[0] if is_where else step.args[1]
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
        return

    def select(own: torch.Tensor) -> torch.Tensor:
        args = [own, *step.args[1:]] if is_where else [step.args[0], own, *step.args[2:]]
        result: torch.Tensor = step.function(*args)
        return result

    yield f"the mask of {step.label} were left out", select(torch.full_like(mask, is_where))
    yield f"the mask of {step.label} hid all", select(torch.full_like(mask, not is_where))
    yield f"the mask of {step.label} were inverted", select(~mask)
    if not is_where:
        text = f"what the mask of {step.label} hides were 0"
        yield text, step.function(step.args[0], mask, 0)
    for axis in range(max(0, mask.dim() - 2), mask.dim()):
        index = torch.arange(mask.shape[axis], device=mask.device)
        for shift in (1, -1):
            moved = (index + shift).clamp(0, mask.shape[axis] - 1)
            yield _tell_shift(step, shift), select(mask.index_select(axis, moved))
    for tile in _TILES[1:]:
        yield from _iter_tiled(step, mask, select, tile)


def _iter_additive_masks(step: ReferenceStep, left: torch.Tensor, right: torch.Tensor) -> Made:
    """Yield a mask of minus infinities that is added, shifted or taken for whole tiles."""
    hidden = right.isinf()

    def add(mask: torch.Tensor) -> torch.Tensor:
        return left + torch.where(mask, -math.inf, 0.0)

    index = torch.arange(hidden.shape[-1], device=hidden.device)
    for shift in (1, -1):
        moved = (index + shift).clamp(0, hidden.shape[-1] - 1)
        yield _tell_shift(step, shift), add(hidden.index_select(-1, moved))
    for tile in _TILES[1:]:
        yield from _iter_tiled(step, hidden, add, tile)


def _iter_tiled(
    step: ReferenceStep,
    mask: torch.Tensor,
    select: Callable[[torch.Tensor], torch.Tensor],
    tile: int,
) -> Made:
    """Yield a mask of two axes that is decided for whole tiles, or for stretches of a row."""
    if mask.dim() < 2 or mask.dtype != torch.bool or tile >= max(mask.shape[-2:]):
        return
    rows, columns = mask.shape[-2:]
    cut = mask.reshape(-1, 1, rows, columns).double()
    for high, wide in ((tile, tile), (1, tile), (tile, 1)):
        for sign, told in ((1.0, "any"), (-1.0, "all")):
            pool = torch.nn.functional.max_pool2d
            pooled = sign * pool(sign * cut, (high, wide), ceil_mode=True)
            laid = pooled.repeat_interleave(high, -2).repeat_interleave(wide, -1)
            whole = (laid[..., :rows, :columns] > 0).reshape(mask.shape)
            where = f"{tile}" if high == wide else f"{high} by {wide}"
            text = f"the mask of {step.label} were decided for whole tiles of {where}, by {told}"
            yield text, select(whole)


def _iter_indices(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    if step.name not in _INDEXING:
        return
    at, size = _find_index(step)
    index = at[1] if at else None
    if index is None or index.dtype == torch.bool:
        return
    limit = size - 1
    order = torch.arange(index.numel(), device=index.device).reshape(index.shape)
    moves = {
        "1 less": index - 1,
        "1 more": index + 1,
        "not used: 0, 1, 2 and so on": order,
        "those of the next place": index.roll(-1, 0),
        "those of the place before": index.roll(1, 0),
        "cut to 8 bits": index & 0xFF,
        "cut to 16 bits": index & 0xFFFF,
        "halved": index // 2,
        "doubled": index * 2,
        "the first everywhere": index.reshape(-1)[:1].expand(index.shape),
    }
    for told, other in moves.items():
        args = list(step.args)
        own = other.clamp(0, limit).contiguous()
        if at is not None and at[0] >= 0:
            args[at[0]] = own
        else:
            args[1] = [own if one is index else one for one in step.args[1]]
        yield f"the indices of {step.label} were {told}", step.function(*args, **step.kwargs)


def _find_index(step: ReferenceStep) -> tuple[tuple[int, torch.Tensor] | None, int]:
    """Return which argument is the index (-1: it is in a list), and the size that it counts in."""
    if step.name == "index":
        found = [(axis, own) for axis, own in enumerate(step.args[1]) if own is not None]
        if len(found) != 1:
            return None, 0
        return (-1, found[0][1]), step.args[0].shape[found[0][0]]
    if step.name == "embedding":
        return (1, step.args[1]), step.args[0].shape[0]
    return (2, step.args[2]), step.args[0].shape[step.args[1]]


# Products.


def _iter_convolutions(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    if step.name != "convolution":
        return
    value, weight, bias, stride, padding, *rest = step.args
    axes = list(range(2, weight.dim()))
    flipped = step.function(value, weight.flip(axes), bias, stride, padding, *rest)
    yield f"the weights of {step.label} were reversed", flipped
    for axis in axes:
        turned = step.function(value, weight.flip(axis), bias, stride, padding, *rest)
        yield f"the weights of {step.label} were reversed along axis {axis}", turned
    if weight.dim() == 4 and weight.shape[2] == weight.shape[3]:
        turned = step.function(value, weight.mT.contiguous(), bias, stride, padding, *rest)
        yield f"the weights of {step.label} were transposed", turned
    yield from _iter_windows(step)
    if any(padding):
        sides = [side for own in reversed(padding) for side in (own, own)]
        none = [0] * len(padding)
        for mode in ("replicate", "reflect", "circular"):
            with suppress(RuntimeError):
                around = torch.nn.functional.pad(value, sides, mode=mode)
                output = step.function(around, weight, bias, stride, none, *rest)
                yield f"{step.label} padded by {mode}, not by zeros", output
    if bias is not None:
        without = step.function(value, weight, None, stride, padding, *rest)
        yield f"{step.label} had no bias", without


def _iter_windows(step: ReferenceStep) -> Made:
    """Yield a convolution whose taps are at other distances along an axis, or all."""
    value, weight, bias, stride, padding, dilation, *rest = step.args
    count = weight.dim() - 2
    for axes in (*((axis,) for axis in range(count)), tuple(range(count))):
        for apart in (1, 2):
            other, around = list(dilation), list(padding)
            for axis in axes:
                other[axis] = apart
                around[axis] = apart * (weight.shape[2 + axis] - 1) // 2
            if other != list(dilation):
                named = ", ".join(str(axis + 2) for axis in axes)
                told = f"{step.label} had a dilation of {apart} along axis {named}"
                yield told, step.function(value, weight, bias, stride, around, other, *rest)


def _iter_pools(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    """Yield a maximum over windows that have one element fewer, or begin elsewhere."""
    if step.name != "max_pool2d_with_indices" or len(step.args) > 4:
        return  # dilated, or rounded up
    value, size = step.args[:2]
    stride = step.args[2] if len(step.args) > 2 and step.args[2] else size
    padding = step.args[3] if len(step.args) > 3 else [0] * len(size)
    count = len(size)
    axes = [*((axis,) for axis in range(count)), tuple(range(count))]
    for chosen in axes:
        named = (
            "all axes" if len(chosen) == count > 1 else f"axis {chosen[0] - count + value.dim()}"
        )
        for begin, lost, told in (
            (1, 0, "began 1 behind"),
            (-1, 0, "began 1 before"),
            (0, 1, "left out their last element"),
            (1, 1, "left out their first element"),
        ):
            sides, less = [], list(size)
            for axis in reversed(range(count)):
                by, fewer = (begin, lost) if axis in chosen else (0, 0)
                less[axis] -= fewer
                sides += [padding[axis] - by, padding[axis] + by - fewer]
            if min(less) > 0:
                around = torch.nn.functional.pad(value, sides, value=-math.inf)
                output = step.function(around, less, stride)
                yield f"the windows of {step.label} {told} along {named}", output


def _iter_repeats(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    """Yield an axis that is repeated as a whole where each index is to be, and the reverse."""
    if step.name != "expand":
        return
    value, output = step.args[0], step.output
    if value.dim() != output.dim():
        return
    for axis in range(1, output.dim()):
        if value.shape[axis] == 1 and output.shape[axis] > 1 and value.shape[axis - 1] > 1:
            outer, inner = output.shape[axis - 1], output.shape[axis]
            index = torch.arange(outer * inner, device=value.device) % outer
            line = value.squeeze(axis).index_select(axis - 1, index)
            text = f"{step.label} repeated axis {axis - 1} as a whole, not each of its indices"
            yield text, line.unflatten(axis - 1, (outer, inner))


def _iter_wrapped(step: ReferenceStep, _steps: Sequence[ReferenceStep]) -> Made:
    """Yield whole numbers that go through a type of fewer bits, or lose their sign."""
    if step.name == "_to_copy" and step.args[0].dtype in (torch.int8, torch.int16):
        bits = torch.iinfo(step.args[0].dtype).bits
        wrapped = torch.where(step.output < 0, step.output + 2**bits, step.output)
        yield f"the {bits}-bit numbers of {step.label} had no sign", wrapped
    output = step.output
    if step.name not in ("mm", "bmm", "sum", "mul", "add", "sub", "scatter_add", "index_add"):
        return
    if not isinstance(output, torch.Tensor) or not bool((output == output.round()).all()):
        return
    for bits in (8, 16):
        half = 2 ** (bits - 1)
        yield f"{step.label} wrapped at {bits} bits", (output + half) % (2 * half) - half
        yield f"{step.label} wrapped at {bits} bits without sign", output % (2 * half)


def _iter_operands(step: ReferenceStep, steps: Sequence[ReferenceStep], inputs: set[int]) -> Made:
    """Yield what a product gives of an operand that is no input, changed as inputs are."""
    for at, own in enumerate(step.args[:2]):
        if not is_float(own) or get_root(own, steps) in inputs:
            continue
        maker = find_maker(own, steps)
        name = f"{maker.name}_of_line_{maker.line}" if maker else f"operand_{at + 1}"
        for text, tensor in iter_input_changes(name, own):
            args = list(step.args)
            args[at] = tensor
            yield text, step.function(*args, **step.kwargs)
    if step.output.dim() > 2 and step.output.shape[0] > 1:
        text = f"{step.label} kept what the indices before along axis 0 had"
        yield text, torch.cumsum(step.output, 0)


# Rounding.


def _iter_narrow(step: ReferenceStep) -> Made:
    if not is_float(step.output) or step.moves_only:
        return
    for dtype in _NARROW:
        if torch.finfo(step.output.dtype).eps < torch.finfo(dtype).eps:
            text = f"{step.label} were rounded to {name_dtype(dtype)}"
            yield text, step.output.to(dtype).to(step.output.dtype)
