"""Finds the step of the reference that, done wrong, gives a wrong output: a sum, a mask, a factor.

The steps of the reference are recorded. Then each step's result is replaced by what a usual mistake
makes of it, and what follows is computed from that. A change is told where it gives the wrong
elements the values that the candidate has there; the same mistake in several steps, too. Where none
does, the sums and means are varied until they explain what is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from typing import NamedTuple

import torch

from kernelkb.measure.worker.judge.compare.step_changes import iter_changes
from kernelkb.measure.worker.judge.compare.steps import (
    ChangedSteps,
    ReferenceStep,
    StepChange,
    StepRecorder,
    get_root,
    is_float,
)
from kernelkb.measure.worker.judge.compare.sum_changes import REDUCTIONS
from kernelkb.measure.worker.judge.compare.wrong_values import (
    FEW,
    SURE,
    FineSample,
    SearchLimit,
    ToldCause,
    WrongOutput,
    WrongSample,
    draw_fine,
    name_dtype,
    ravel,
)

_TRIED = 1000
_LEAST_RUNS = 8
_EXACT = 0.5
_ROUNDED = 0.3
"""Part of a small error that a rounding may leave unexplained."""
_EXPLAINED, _LEAST_EXPLAINED = 0.1, 16
"""Part of an error that any change may leave, and of so many elements."""
_MOSTLY = 0.8
"""Of the elements, whose own error has to be explained."""
_SMALL = 0.05
_MAX_PAIRS = 4
_LEAST_GROUP = 4
"""Elements for each value of a statistic: with fewer any statistic explains them."""
_TURNS = 6
_STEP = 1e-4
_ALIKE = 1e-3


class _Target(NamedTuple):
    """What a changed reference has to give."""

    at: torch.Tensor
    """Places of wrong elements, in memory order."""
    got: torch.Tensor
    allowed: torch.Tensor
    fine: FineSample
    luck: float
    """Probability that an element is met by accident."""
    size: float
    """Root mean square of the errors."""
    limit: float
    is_finite: bool
    right: torch.Tensor
    """What is right in the wrong places."""
    needs_right: bool
    """Whether right elements have to stay right: the wrong ones alone show little."""


class _Search(NamedTuple):
    """A reference whose steps are known, and what it has to give when one is changed."""

    steps: Sequence[ReferenceStep]
    inputs: set[int]
    """Addresses of the reference's inputs, and of their copies in another type."""
    target: _Target
    run: Callable[[StepChange | None, torch.dtype | None], torch.Tensor | None]
    """Returns the output in memory order; None: the reference does not take the change."""
    dtype: torch.dtype
    """Of the candidate's output."""
    is_small: bool
    """Whether the errors may be of rounding."""
    limit: SearchLimit


def find_changed_step(
    given: WrongOutput, sample: WrongSample, limit: SearchLimit
) -> ToldCause | None:
    """Return which step of the reference, done wrong, gives the wrong values; None: none tried.

    Args:
        given: The wrong output.
        sample: Some wrong elements of it, which may be NaN or infinite.
        limit: How long to search.
    """
    own = _record(given, sample, limit)
    if own is None:
        return None
    if own.target.is_finite and (found := _search(own)):
        return found
    if not own.target.is_finite and not len(own.target.fine.at):
        return None
    told = _find_statistic(own) if own.target.is_finite else _search_lost(own)
    return ToldCause(told, True) if told else None


def compare_precisions(given: WrongOutput, sample: WrongSample) -> str | None:
    """Say how far off the reference is with each step in a narrower type, and what is allowed.

    Args:
        given: An output whose errors are small.
        sample: Some wrong elements of it.
    """
    own = _record(given, sample, SearchLimit())
    scale = float(sample.right.square().mean().sqrt())
    if own is None or not scale or not own.target.is_finite:
        return None
    told = []
    for dtype in dict.fromkeys([own.dtype, torch.float16, torch.bfloat16]):
        found = own.run(None, dtype)
        if found is not None:
            error = (found[own.target.at].double() - sample.right).square().mean().sqrt()
            told.append(f"in {name_dtype(dtype)} {float(error) / scale:.1g}")
    allowed = own.target.limit / scale
    return f"allowed is {allowed:.1g}; with each step {', '.join(told)}" if told else None


def _record(given: WrongOutput, sample: WrongSample, limit: SearchLimit) -> _Search | None:
    """Record the steps of the reference; return None where it cannot be run, or not recorded."""
    rerun = given.rerun
    if rerun is None or len(sample.got) < FEW:
        return None
    inputs = [tensor for _, tensor in given.inputs]
    recorder, found = StepRecorder(), None
    begin_s = time.monotonic()
    with suppress(Exception), torch.no_grad(), recorder:  # of the user's code, of any kind
        found = rerun(inputs)
    is_quick = time.monotonic() - begin_s < limit.wall_s / _LEAST_RUNS
    steps, target = recorder.steps, _make_target(given, sample)
    if found is None or not recorder.is_whole or not steps or not is_quick:
        return None
    if not _gives_right(found.reshape(-1), target):
        return None  # it is random

    def run(change: StepChange | None, dtype: torch.dtype | None) -> torch.Tensor | None:
        if limit.is_over():
            return None
        mode = ChangedSteps(steps, change, dtype)
        with suppress(Exception), torch.no_grad(), mode:  # it may not take this
            found = rerun(inputs)
            return found.reshape(-1) if found.numel() == len(sample.flat) else None
        return None

    known = _find_inputs(inputs, steps)
    return _Search(steps, known, target, run, given.output.dtype, _is_small(given, target), limit)


def _search(own: _Search) -> ToldCause | None:
    """Return the change that leaves least unexplained, or the first that leaves next to nothing."""
    best: tuple[tuple[bool, float], str] | None = None
    made: dict[tuple[str, object], list[StepChange]] = {}
    for change in _iter_all(own, made):
        if own.limit.is_over():
            break
        found = own.run(change, None)
        rank = None if found is None else _rank(found, own.target, change)
        if rank is not None and (best is None or rank < best[0]):
            best = rank, change.text
            if not rank[0] and rank[1] < _EXACT * own.target.limit:
                break
    return ToldCause(f"as if {best[1]}", not best[0][0]) if best else None


def _iter_all(
    own: _Search, made: dict[tuple[str, object], list[StepChange]]
) -> Iterator[StepChange]:
    """Yield changes of one step each, then those of all steps that one mistake may be made in.

    Args:
        own: The search.
        made: Receives the changes by what they have in common, without their results.
    """
    for change in iter_changes(own.steps, own.inputs, is_small=own.is_small):
        if change.make is not None:
            made.setdefault(change.kind, []).append(change._replace(output=None))
        yield change
    by_text: dict[object, list[StepChange]] = {}
    for (text, _), alike in made.items():
        by_text.setdefault(text, []).extend(alike)
    for alike in (*made.values(), *(own for own in by_text.values() if own not in made.values())):
        alike = sorted(alike, key=lambda change: change.number)
        numbers = tuple(dict.fromkeys(change.number for change in alike))
        if len(numbers) > 1:
            lines = {own.steps[number].line for number in numbers[1:]}
            also = f", and {len(numbers) - 1} such step{'s' if numbers[2:] else ''} more"
            told = f" (line{'s' if lines - {0} and len(lines) > 1 else ''} " if lines - {0} else ""
            more = f"{told}{', '.join(map(str, sorted(lines)))})" if told else ""
            yield alike[0]._replace(text=f"{alike[0].text}{also}{more}", numbers=numbers)


def _search_lost(own: _Search) -> str | None:
    """Return what makes NaN or infinity of just the elements in which the candidate has it."""
    for dtype in dict.fromkeys([own.dtype, torch.float16, torch.bfloat16]):
        found = own.run(None, dtype)
        if found is not None and _loses_same(found, own.target):
            return f"as if each step were computed in {name_dtype(dtype)}, which overflows"
    for change in iter_changes(own.steps, own.inputs, is_small=False):
        if own.limit.is_over():
            break
        found = own.run(change, own.dtype)
        if found is not None and _loses_same(found, own.target):
            return f"as if {change.text}"
    return None


def _gives_right(found: torch.Tensor, target: _Target) -> bool:
    """Return whether the reference gives the same again."""
    error = (found[target.at].double() - target.right).abs()
    known = target.right.isfinite()
    return bool((error <= 2 * target.allowed + 1e-300)[known].all())


def _find_inputs(inputs: Sequence[torch.Tensor], steps: Sequence[ReferenceStep]) -> set[int]:
    found = {tensor.data_ptr() for tensor in inputs}
    copies = (step for step in steps if step.name in ("_to_copy", "clone"))
    found |= {step.output.data_ptr() for step in copies if get_root(step.args[0], steps) in found}
    return found


def _make_target(given: WrongOutput, sample: WrongSample) -> _Target:
    fine = draw_fine(given, sample)
    known = sample.got.isfinite() & sample.right.isfinite()
    own, allowed = (sample.got - sample.right).abs()[known], sample.allowed[known]
    luck = float((2 * allowed / own.clamp(min=1e-300)).clamp(max=1.0).median()) if len(own) else 0.5
    is_whole = not given.output.is_floating_point()
    if is_whole:  # of few values any one is met by accident
        luck = max(luck, sample.by_chance, 1 / max(1, len(fine.right.unique()) - 1))
    return _Target(
        at=ravel(sample.where, sample.shape),
        got=sample.got,
        allowed=sample.allowed,
        fine=fine,
        luck=max(luck, 1e-6),
        size=float(own.square().mean().sqrt()) if len(own) else 0.0,
        limit=float(allowed.square().mean().sqrt()) if len(allowed) else 0.0,
        is_finite=bool(sample.got.isfinite().all()),
        right=sample.right,
        needs_right=is_whole or len(sample.got.unique()) == 1,
    )


def _is_small(given: WrongOutput, target: _Target) -> bool:
    right = given.oracle[given.oracle.isfinite()]
    scale = float(right.double().square().mean().sqrt()) if right.numel() else 0.0
    return target.size < _SMALL * scale


def _rank(found: torch.Tensor, target: _Target, change: StepChange) -> tuple[bool, float] | None:
    """Return how well a change explains the wrong elements, less is better; None: it does not.

    First come changes after which right elements stay right.
    """
    own = found[target.at].double()
    error, missing = (own - target.got).abs(), (target.got - target.right).abs()
    left = float(error.square().mean().sqrt())
    near = error <= 2 * target.allowed
    holds = float(near.double().mean()) >= SURE
    part = _ROUNDED if change.is_rounding else _EXPLAINED
    is_part = float((near | (error <= 2 * part * missing)).double().mean()) > _MOSTLY
    is_many = len(own) >= _LEAST_EXPLAINED and not target.needs_right
    is_explained = is_many and is_part and left < part * target.size
    if not is_explained and not (holds and _TRIED * target.luck ** len(own) < 0.05):
        return None
    keeps = target.fine.is_kept(found)
    if target.needs_right and not (keeps and len(target.fine.at) >= _LEAST_EXPLAINED):
        return None
    return not keeps, left


def _loses_same(found: torch.Tensor, target: _Target) -> bool:
    """Return whether elements that the candidate has lost are lost here, and right ones are not."""
    own, lost = found[target.at].double().isfinite(), ~target.got.isfinite()
    parts = (~own[lost], own[~lost], found[target.fine.at].isfinite())
    return all(not len(one) or float(one.double().mean()) >= SURE for one in parts)


# Statistics that are wrong themselves.


def _find_statistic(own: _Search) -> str | None:
    """Return which sum, mean or maximum, or which two, explain what is wrong with other values."""
    right = own.run(None, None)
    if right is None:
        return None
    reduced = [step for step in own.steps if _is_statistic(step, len(right))]
    pairs = [two for two in combinations(reduced, 2) if two[0].output.shape == two[1].output.shape]
    for steps in (*((step,) for step in reduced), *pairs[:_MAX_PAIRS]):
        count = steps[0].output.numel()
        if len(right) // count < _LEAST_GROUP * len(steps):
            continue
        for group in (own.target.at // (len(right) // count), own.target.at % count):
            with suppress(RuntimeError):  # a matrix without an inverse
                if told := _fit(own, steps, group, right):
                    return told
    return None


def _is_statistic(step: ReferenceStep, total: int) -> bool:
    if step.name not in REDUCTIONS or not is_float(step.output):
        return False
    count = step.output.numel()
    return bool(count > 0 and total % count == 0)


def _fit(
    own: _Search, steps: Sequence[ReferenceStep], group: torch.Tensor, right: torch.Tensor
) -> str | None:
    """Vary each value of statistics by itself, by Newton's method, and say by how much it is off.

    Args:
        own: The search.
        steps: The statistics, of one shape.
        group: For each wrong element, which values of the statistics enter it.
        right: The output without a change.
    """
    target, count = own.target, steps[0].output.numel()
    values = torch.stack([step.output.reshape(-1).double() for step in steps], 1)
    scales = values.square().mean(0).sqrt().clamp(min=1e-30)
    moved = torch.zeros_like(values)
    now: torch.Tensor | None = right[target.at].double()
    for _ in range(_TURNS):
        slope = None if now is None else _find_slopes(own, steps, values + moved, now, scales)
        if now is None or slope is None:
            return None
        moved = moved + _solve(slope, target.got - now, group, count) * scales
        now = _run_at(own, steps, values + moved)
    if now is None or not bool(now.isfinite().all()):
        return None
    if float((now - target.got).abs().le(2 * target.allowed).double().mean()) < SURE:
        return None
    several = torch.bincount(group, minlength=count) >= _LEAST_GROUP * len(steps)
    if not bool(several.any()) or not _moves_groups_alone(own, steps, group, right):
        return None
    told = [
        _tell_ratio(step, values[:, at], moved[:, at], several) for at, step in enumerate(steps)
    ]
    return f"as if {' and '.join(filter(None, told))}" if all(told) else None


def _run_at(
    own: _Search, steps: Sequence[ReferenceStep], values: torch.Tensor
) -> torch.Tensor | None:
    """Return what the wrong elements are with other values of statistics, one column for each."""
    found = own.run(_replace(steps, values), None)
    return None if found is None else found[own.target.at].double()


def _find_slopes(
    own: _Search,
    steps: Sequence[ReferenceStep],
    values: torch.Tensor,
    now: torch.Tensor,
    scales: torch.Tensor,
) -> torch.Tensor | None:
    """Return by how much each wrong element moves with each statistic, by that one's scale."""
    slopes = []
    for at in range(len(steps)):
        nudged = values.clone()
        nudged[:, at] += _STEP * scales[at]
        near = _run_at(own, steps, nudged)
        if near is None:
            return None
        slopes.append((near - now) / _STEP)
    return torch.stack(slopes, 1)


def _solve(
    slope: torch.Tensor, missing: torch.Tensor, group: torch.Tensor, count: int
) -> torch.Tensor:
    """Return by how much the statistics of each group have to move, by least squares."""
    width = slope.shape[1]
    matrix = torch.zeros(count, width, width, dtype=slope.dtype, device=slope.device)
    matrix = matrix.index_add(0, group, slope[:, :, None] * slope[:, None])
    above = torch.zeros(count, width, dtype=slope.dtype, device=slope.device)
    above = above.index_add(0, group, slope * missing[:, None])
    size = matrix.diagonal(dim1=1, dim2=2).mean(1)[:, None, None].clamp(min=1e-300)
    ridge = 1e-12 * torch.eye(width, dtype=slope.dtype, device=slope.device)
    found: torch.Tensor = torch.linalg.solve(matrix / size + ridge, above / size[:, :, 0])
    return found.clamp(-1, 1)


def _replace(steps: Sequence[ReferenceStep], values: torch.Tensor) -> StepChange:
    """Return a change that gives statistics other values, one column for each."""
    outputs = {
        step.number: values[:, at].to(step.output.dtype).reshape(step.output.shape)
        for at, step in enumerate(steps)
    }
    return StepChange(steps[0].number, "", outputs[steps[0].number], outputs=outputs)


def _tell_ratio(
    step: ReferenceStep, values: torch.Tensor, moved: torch.Tensor, several: torch.Tensor
) -> str | None:
    known = several & (values.abs() > _ALIKE * values.abs().max())
    ratio = ((values + moved) / values)[known]
    if not len(ratio):
        return None
    low, high = float(ratio.min()), float(ratio.max())
    if abs(high - low) < _ALIKE * abs(high):
        return f"{step.label} were {float(ratio.median()):.4g} times as large"
    return f"{step.label} were {low:.3g} to {high:.3g} times as large, by the row"


def _moves_groups_alone(
    own: _Search, steps: Sequence[ReferenceStep], group: torch.Tensor, right: torch.Tensor
) -> bool:
    """Return whether a change of every other value changes every other group, and no more."""
    values = torch.stack([step.output.reshape(-1).double() for step in steps], 1)
    odd = (torch.arange(len(values), device=values.device) % 2)[:, None]
    found = own.run(_replace(steps, values * (1 + 0.01 * odd) + 1e-6 * odd), None)
    if found is None:
        return False
    has_moved = (found != right)[own.target.at]
    return float((has_moved == (odd[group, 0] > 0)).double().mean()) > SURE
