"""Finds the step of the reference that, done wrong, gives a wrong output: a sum, a mask, a factor.

The steps of the reference are recorded. Then each step's result is replaced by what a usual mistake
makes of it, and what follows is computed from that. A change is told where it gives the wrong
elements the values that the candidate has there. Its words are fixed: the patterns of
``knowledge/symptoms/error-shape.yaml`` match them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

import torch

from kernelkb.measure.worker.judge.compare.steps import (
    Change,
    ChangedSteps,
    Step,
    StepRecorder,
    find_maker,
    get_root,
    is_float,
)
from kernelkb.measure.worker.judge.compare.sum_changes import (
    iter_divisors,
    iter_narrow_sums,
    iter_reductions,
    iter_rescaled,
    iter_scans,
)
from kernelkb.measure.worker.judge.compare.wrong_values import (
    FEW,
    SURE,
    WrongOutput,
    WrongSample,
    iter_input_changes,
    name_dtype,
    ravel,
)

_BUDGET_S, _MAX_WALL_S = 1.5, 4.0
"""CPU time and time of one search."""
_TRIED = 1000
_EXACT = 0.5
_FINE = 512
"""Right elements that are compared as well."""
_ROUNDED = 0.3
"""Part of a small error that a rounding may leave unexplained."""
_SMALL = 0.05
_TILES = (4, 8, 16, 32, 64, 128, 256)
_NARROW = (torch.bfloat16, torch.float16)
_ADDING = ("add", "sub")
_BINARY = (*_ADDING, "mul", "div", "maximum", "minimum", "pow")
_UNARY = frozenset(
    ("exp", "exp2", "log", "log1p", "expm1", "sqrt", "rsqrt", "erf", "tanh", "sigmoid", "relu",
     "abs", "neg", "reciprocal", "round", "floor", "ceil", "trunc", "square", "pow", "sin", "cos")
)  # fmt: skip
_PRODUCTS = ("mm", "bmm", "mv", "dot", "convolution")
_MASKING = ("where", "masked_fill")
_COMPARING = {"lt": torch.le, "le": torch.lt, "gt": torch.ge, "ge": torch.gt}
_INDEXING = ("index", "index_select", "gather", "embedding")
_OF_AXIS = ("_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp")
_LIMITING = ("clamp", "clamp_min", "clamp_max", "relu", "hardtanh")
_Made = Iterator[tuple[str, torch.Tensor]]


class _Target(NamedTuple):
    """What a changed reference has to give."""

    at: torch.Tensor
    """Places of wrong elements, in memory order."""
    got: torch.Tensor
    allowed: torch.Tensor
    fine: torch.Tensor
    """Places of right elements."""
    fine_right: torch.Tensor
    fine_allowed: torch.Tensor
    luck: float
    """Probability that an element is met by accident."""
    size: float
    """Root mean square of the errors."""
    limit: float
    is_finite: bool


def find_changed_step(given: WrongOutput, sample: WrongSample) -> str | None:
    """Return which step of the reference, done wrong, gives the wrong values; None: none tried.

    Args:
        given: The wrong output.
        sample: Some wrong elements of it, which may be NaN or infinite.
    """
    rerun = given.rerun
    if rerun is None or len(sample.got) < FEW:
        return None
    inputs = [tensor for _, tensor in given.inputs]
    recorder = StepRecorder()
    with suppress(Exception), torch.no_grad(), recorder:  # of the user's code, of any kind
        rerun(inputs)
    steps, target = recorder.steps, _make_target(given, sample)
    if not recorder.is_whole or not steps or not (target.is_finite or len(target.fine)):
        return None

    def run(change: Change | None, dtype: torch.dtype | None) -> torch.Tensor | None:
        mode = ChangedSteps(steps, change, dtype)
        with suppress(Exception), torch.no_grad(), mode:  # it may not take this
            found = rerun(inputs)
            return found.reshape(-1) if found.numel() == len(sample.flat) else None
        return None

    if target.is_finite:
        return _search(steps, _find_inputs(inputs, steps), target, given, run)
    return _search_lost(steps, _find_inputs(inputs, steps), target, given, run)


_Run = Callable[[Change | None, torch.dtype | None], torch.Tensor | None]


def _search(
    steps: Sequence[Step], inputs: set[int], target: _Target, given: WrongOutput, run: _Run
) -> str | None:
    """Return the change that leaves least unexplained, or the first that leaves next to nothing."""
    best: tuple[tuple[bool, float], str] | None = None
    is_small = _is_small(given, target)
    for change in _limit_time(iter_changes(steps, inputs, is_small=is_small)):
        found = run(change, None)
        rank = None if found is None else _rank(found, target, change)
        if rank is not None and (best is None or rank < best[0]):
            best = rank, change.text
            if not rank[0] and rank[1] < _EXACT * target.limit:
                break
    return f"as if {best[1]}" if best else None


def _search_lost(
    steps: Sequence[Step], inputs: set[int], target: _Target, given: WrongOutput, run: _Run
) -> str | None:
    """Return what makes NaN or infinity of just the elements in which the candidate has it."""
    own = given.output.dtype
    for dtype in dict.fromkeys([own, torch.float16, torch.bfloat16]):
        found = run(None, dtype)
        if found is not None and _loses_same(found, target):
            return f"as if each step were computed in {name_dtype(dtype)}, which overflows"
    for change in _limit_time(iter_changes(steps, inputs, is_small=False)):
        found = run(change, own)
        if found is not None and _loses_same(found, target):
            return f"as if {change.text}"
    return None


def _limit_time(changes: Iterator[Change]) -> Iterator[Change]:
    end_s, cpu_end_s = time.monotonic() + _MAX_WALL_S, time.thread_time() + _BUDGET_S
    for change in changes:
        if time.monotonic() > end_s or time.thread_time() > cpu_end_s:
            return
        yield change


def _find_inputs(inputs: Sequence[torch.Tensor], steps: Sequence[Step]) -> set[int]:
    """Return the addresses of inputs, and of their copies in another type."""
    found = {tensor.data_ptr() for tensor in inputs}
    copies = (step for step in steps if step.name in ("_to_copy", "clone"))
    found |= {step.output.data_ptr() for step in copies if get_root(step.args[0], steps) in found}
    return found


def _make_target(given: WrongOutput, sample: WrongSample) -> _Target:
    flat, wrong = sample.flat, given.wrong.reshape(-1)
    generator = torch.Generator().manual_seed(3)
    drawn = torch.randint(len(flat), (8 * _FINE,), generator=generator).to(flat.device)
    fine = drawn[~wrong[drawn]][:_FINE]
    right = flat[fine].double()
    known = sample.got.isfinite() & sample.right.isfinite()
    own, allowed = (sample.got - sample.right).abs()[known], sample.allowed[known]
    luck = float((2 * allowed / own.clamp(min=1e-300)).clamp(max=1.0).median()) if len(own) else 0.5
    return _Target(
        at=ravel(sample.where, sample.shape),
        got=sample.got,
        allowed=sample.allowed,
        fine=fine,
        fine_right=right,
        fine_allowed=given.atol + given.rtol * right.abs() + 1e-300,
        luck=max(luck, 1e-6),
        size=float(own.square().mean().sqrt()) if len(own) else 0.0,
        limit=float(allowed.square().mean().sqrt()) if len(allowed) else 0.0,
        is_finite=bool(sample.got.isfinite().all()),
    )


def _is_small(given: WrongOutput, target: _Target) -> bool:
    """Return whether the errors may be of rounding."""
    right = given.oracle[given.oracle.isfinite()]
    scale = float(right.double().square().mean().sqrt()) if right.numel() else 0.0
    return target.size < _SMALL * scale


def _rank(found: torch.Tensor, target: _Target, change: Change) -> tuple[bool, float] | None:
    """Return how well a change explains the wrong elements, less is better; None: it does not.

    First come changes after which right elements stay right.
    """
    own = found[target.at].double()
    error = (own - target.got).abs()
    left = float(error.square().mean().sqrt())
    holds = float((error <= 2 * target.allowed).double().mean()) >= SURE
    is_rounding = change.is_rounding and target.size > 0 and left < _ROUNDED * target.size
    if not is_rounding and not (holds and _TRIED * target.luck ** len(own) < 0.05):
        return None
    return not _keeps_right(found, target), left


def _keeps_right(found: torch.Tensor, target: _Target) -> bool:
    kept = (found[target.fine].double() - target.fine_right).abs() <= 2 * target.fine_allowed
    return not len(kept) or float(kept.double().mean()) >= SURE


def _loses_same(found: torch.Tensor, target: _Target) -> bool:
    """Return whether elements that the candidate has lost are lost here, and right ones are not."""
    own = found[target.at].double()
    lost = ~target.got.isfinite()
    are_alike = own.isfinite() == ~lost
    beside = found[target.fine].isfinite()
    return (
        float(are_alike.double().mean()) >= SURE
        and float((~own[lost].isfinite()).double().mean()) >= SURE
        and float(beside.double().mean()) >= SURE
    )


# All changes.


def iter_changes(steps: Sequence[Step], inputs: set[int], *, is_small: bool) -> Iterator[Change]:
    """Yield changes of all steps, the likeliest kinds first.

    Args:
        steps: As recorded.
        inputs: Addresses of the reference's inputs, whose own changes are tried elsewhere.
        is_small: Whether the errors are small: then roundings come first.
    """
    if is_small:
        yield from _iter_rounded(steps)
    wholes = (_iter_left_out, _iter_binary, _iter_forms, iter_reductions, _iter_masks, iter_scans)
    others = (_iter_limits, _iter_indices, _iter_convolutions, iter_rescaled, _iter_broadcast)
    for make in (*wholes, *others, _iter_constants):
        for step in steps:
            if not step.moves_only:
                yield from _list(step, make(step, steps))
        if make is iter_reductions:
            yield from iter_divisors(steps)
    for step in steps:
        if step.name in _PRODUCTS:
            yield from _list(step, _iter_operands(step, steps, inputs))


def _list(step: Step, made: _Made) -> Iterator[Change]:
    """Yield the changes of one kind until one of them cannot be made."""
    with suppress(RuntimeError, ValueError, IndexError, TypeError):
        for text, output in made:
            yield Change(step.number, text, output)


def _iter_rounded(steps: Sequence[Step]) -> Iterator[Change]:
    for step in steps:
        with suppress(RuntimeError, ValueError, IndexError, TypeError):
            for text, output in chain(_iter_narrow(step), iter_narrow_sums(step)):
                yield Change(step.number, text, output, is_rounding=True)


# Steps of each element.


def _iter_left_out(step: Step, _steps: Sequence[Step]) -> _Made:
    first = step.args[0] if step.args else None
    if not is_float(first) or not is_float(step.output) or first.shape != step.output.shape:
        return
    if step.name in _UNARY:
        yield f"{step.label} were left out", first
    if step.name == "exp":
        yield f"{step.label} had base 2", torch.exp2(first)
    if step.name in ("sqrt", "rsqrt"):
        root = "1/x" if step.name == "rsqrt" else "x * x"
        other = first.reciprocal() if step.name == "rsqrt" else first.square()
        yield f"{step.label} were {root}", other
    if step.name == "rsqrt":
        yield f"{step.label} were a square root, not its inverse", first.sqrt()
    if step.name == "round":
        yield f"{step.label} cut off towards zero", first.trunc()
        yield f"{step.label} went down", first.floor()
        yield f"{step.label} took halves away from zero", first.sign() * (first.abs() + 0.5).floor()


def _iter_forms(step: Step, _steps: Sequence[Step]) -> _Made:
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


def _iter_binary(step: Step, steps: Sequence[Step]) -> _Made:
    if step.name not in _BINARY or len(step.args) < 2:
        return
    left, right = step.args[:2]
    shape = step.output.shape
    told = "second operand" if isinstance(right, torch.Tensor) else f"{right:g}"
    if is_float(left):
        yield f"{step.label} had no {told}", left.expand(shape).clone()
    if is_float(right) and step.name != "div":
        yield f"{step.label} had no first operand", right.expand(shape).clone()
    if step.name in ("sub", "div") and isinstance(right, torch.Tensor):
        yield f"the operands of {step.label} were exchanged", step.function(right, left)
    if step.name == "add" and is_float(right):
        yield f"{step.label} subtracted", left - right
    if step.name == "sub" and is_float(right):
        yield f"{step.label} added", left + right
    if step.name in ("mul", "div"):
        other = torch.div if step.name == "mul" else torch.mul
        yield f"{step.label} applied its {told} twice", step.function(step.output, right)
        yield f"{step.label} were a {other.__name__}", other(left, right)
    if step.name in ("maximum", "minimum"):
        other = torch.minimum if step.name == "maximum" else torch.maximum
        yield f"{step.label} were a {other.__name__}", other(left, right)
    if step.name == "add" and is_float(right) and bool(right.isinf().any()):
        masked = right.isinf().expand(shape)
        text = f"what the mask of {step.label} hides were 0, not minus infinity"
        yield text, torch.where(masked, 0.0, step.output)
        yield from _iter_additive_masks(step, left, right)
    yield from _iter_moved_epsilon(step, steps)


def _iter_moved_epsilon(step: Step, steps: Sequence[Step]) -> _Made:
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
            inside = (root.args[0] + epsilon).sqrt()
            yield f"{step.label} added its {epsilon:g} inside of {root.label}", inside


def _iter_constants(step: Step, _steps: Sequence[Step]) -> _Made:
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


def _iter_limits(step: Step, _steps: Sequence[Step]) -> _Made:
    if step.name not in _LIMITING or not isinstance(step.args[0], torch.Tensor):
        return
    value, bounds = step.args[0], [*step.args[1:3]]
    yield f"{step.label} had no limits", value
    if step.name in ("clamp", "hardtanh") and len(bounds) == 2 and None not in bounds:
        yield f"{step.label} had no lower limit", value.clamp(max=bounds[1])
        yield f"{step.label} had no upper limit", value.clamp(min=bounds[0])
    if step.name == "relu":
        yield f"{step.label} took the absolute value", value.abs()


def _iter_broadcast(step: Step, _steps: Sequence[Step]) -> _Made:
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
                line = wide.movedim(axis, other)
                index = torch.arange(count, device=own.device) % size
                text = f"read along axis {other} instead of {axis}"
                yield text, line.index_select(other, index)


# Masks and indices.


def _iter_masks(step: Step, _steps: Sequence[Step]) -> _Made:
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
    elif step.name in _MASKING:
        yield from _iter_where(step)


def _tell_shift(step: Step, shift: int) -> str:
    return f"the mask of {step.label} were shifted by {shift}"


def _iter_where(step: Step) -> _Made:
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


def _iter_additive_masks(step: Step, left: torch.Tensor, right: torch.Tensor) -> _Made:
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
    step: Step, mask: torch.Tensor, select: Callable[[torch.Tensor], torch.Tensor], tile: int
) -> _Made:
    """Yield a mask of two axes that is decided for whole tiles."""
    if mask.dim() < 2 or mask.dtype != torch.bool or tile >= max(mask.shape[-2:]):
        return
    rows, columns = mask.shape[-2:]
    cut = mask.reshape(-1, 1, rows, columns).double()
    for sign, told in ((1.0, "any"), (-1.0, "all")):
        pooled = sign * torch.nn.functional.max_pool2d(sign * cut, tile, ceil_mode=True)
        wide = pooled.repeat_interleave(tile, -2).repeat_interleave(tile, -1)
        whole = (wide[..., :rows, :columns] > 0).reshape(mask.shape)
        text = f"the mask of {step.label} were decided for whole tiles of {tile}, by {told}"
        yield text, select(whole)


def _iter_indices(step: Step, _steps: Sequence[Step]) -> _Made:
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


def _find_index(step: Step) -> tuple[tuple[int, torch.Tensor] | None, int]:
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


def _iter_convolutions(step: Step, _steps: Sequence[Step]) -> _Made:
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


def _iter_operands(step: Step, steps: Sequence[Step], inputs: set[int]) -> _Made:
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


def _iter_narrow(step: Step) -> _Made:
    if not is_float(step.output) or step.moves_only:
        return
    for dtype in _NARROW:
        if torch.finfo(step.output.dtype).eps < torch.finfo(dtype).eps:
            text = f"{step.label} were rounded to {name_dtype(dtype)}"
            yield text, step.output.to(dtype).to(step.output.dtype)
