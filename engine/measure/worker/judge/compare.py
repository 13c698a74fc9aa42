"""Compare outputs with the reference. The candidate's code never runs in this process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from kernelkb.measure.worker.judge.inputs import Task, Tensors
from kernelkb.measure.worker.shared.memory import give_back

Job = dict[str, Any]

_EPSILON_ALLOWANCE = 32.0
"""How many units in the last place of the dtype an honest kernel may be off by another order of
sums, beside the reference's own error."""
_OWN_ERROR_ALLOWANCE = 8.0
_UNSEEN_ALLOWANCE = 8.0
"""How much more where memory forbids a wider oracle: the reference's own error is not seen then."""
_FEW_OUTPUTS = 4096
_NUDGES = 4
_AT_ONCE = 2**24
_MOST_MOVED = 0.01
_MOST_ROUNDED = 0.05
_HALF_WORD = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def oracle_dtype(task: Task) -> torch.dtype:
    """Return fp64 where eight times the arrays fit into memory, else fp32."""
    wide = sum(t.numel() for t in (_meta(s) for s in (*task.inputs, *task.outputs))) * 8 * 4
    if task.target == "cpu" or wide <= torch.cuda.mem_get_info()[0]:
        return torch.float64
    return torch.float32


def _meta(spec: Job) -> torch.Tensor:
    return torch.empty(tuple(spec["shape"]), device="meta")


class Expected:
    """The right outputs for some inputs, and how far from them an honest kernel may be."""

    def __init__(self, task: Task, inputs: Tensors, tolerances: Job) -> None:
        self._task, self._inputs = task, inputs
        self.dtype: torch.dtype | None = oracle_dtype(task)
        self._want: Tensors = []
        narrower = False
        try:
            self._compute(tolerances)
        except torch.OutOfMemoryError:
            narrower = self.dtype == torch.float64
            if not narrower:
                raise
        if narrower:  # outside of the handler, which holds on to every array of the failed try
            self.dtype, self._want = torch.float32, []
            give_back()
            self._compute(tolerances)
        give_back()  # it is the candidate's turn, and what it needs may be as much

    def _compute(self, tolerances: Job) -> None:
        task, inputs = self._task, self._inputs
        near = task.right(inputs, None)
        try:
            self._want = task.right(inputs, self.dtype)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            # It makes tensors of its own type inside, which meet wider ones: as it stands, then.
            self.dtype, self._want = None, near
        self._near: list[torch.Tensor | None] = [
            one if not one.is_floating_point() else None for one in near
        ]
        self._limits = [
            limits(spec["dtype"], want, one, tolerances.get(spec["dtype"]), moved)
            for spec, want, one, moved in zip(
                task.outputs, self._want, near, self._moved(tolerances), strict=True
            )
        ]

    def _moved(self, tolerances: Job) -> list[float]:
        """Return how far each output moves when every input moves by one unit in its last place.

        The reference's own error says what an honest kernel may lose where there are many outputs.
        Of a few it may happen to be nothing, and they may happen to cancel out to nothing. What a
        last place of the inputs decides, no kernel can be asked for.
        """
        most = [0.0] * len(self._want)
        given = all(spec["dtype"] in tolerances for spec in self._task.outputs)
        many = max(want.numel() for want in self._want) > _FEW_OUTPUTS
        if given or many or self.dtype is None:
            return most
        for seed in range(_NUDGES):
            nudged = _nudged(self._inputs, seed, self.dtype)
            made = self._task.right(nudged, self.dtype, needed=False)
            del nudged
            for at, (one, want) in enumerate(zip(made, self._want, strict=True)):
                if want.is_floating_point() and want.numel():
                    far = (one - want).abs()
                    # What jumps was rounded to a step by the task, and says nothing.
                    near = far[far <= _MOST_MOVED * want.square().mean().sqrt()]
                    most[at] = max(most[at], float(near.max()) if near.numel() else 0.0)
        return most

    def compare(self, got: Tensors) -> Job:
        """Judge outputs; the worst of several outputs speaks for all."""
        verdicts = [self._one(at, tensor) for at, tensor in enumerate(got)]
        return min(verdicts, key=lambda v: (v["correct"], v["matched_ratio"]))

    def fooled_by(self) -> tuple[list[str], list[str]]:
        """Return which wrong answers would pass, and which would not."""
        accepted: set[str] = set()
        refused: set[str] = set()
        for at, want in enumerate(self._want):
            for name, wrong in _wrong(want, self._inputs, self._swapped(at)):
                (accepted if self._one(at, wrong)["correct"] else refused).add(name)
        return sorted(accepted), sorted(refused - accepted)

    def _swapped(self, at: int) -> list[torch.Tensor]:
        """Return the answers with two inputs of one shape exchanged, where that changes them."""
        found: list[torch.Tensor] = []
        for first in range(len(self._inputs)):
            for second in range(first + 1, len(self._inputs)):
                one, two = self._inputs[first], self._inputs[second]
                if one.shape == two.shape and one.dtype == two.dtype:
                    other = list(self._inputs)
                    other[first], other[second] = two, one
                    found.append(self._task.right(other, self.dtype)[at])
        return found

    def _one(self, at: int, got: torch.Tensor) -> Job:
        want, limit = self._want[at], self._limits[at]
        if not want.is_floating_point():
            return _whole(got, want, self._near[at], limit)
        error = (got.to(want.dtype) - want).abs_()
        nan_count = 0
        if not math.isfinite(float(error.sum())):
            both = (want == got.to(want.dtype)) | (want.isnan() & got.isnan())
            error = torch.where(both, 0.0, error)  # equal infinities differ by NaN
            nan_count = int((got.isnan() & ~want.isnan()).sum())
        ratio = _mean(error <= limit["atol"] + limit["rtol"] * want.abs())
        worst = float(error.max()) if error.numel() else 0.0
        finite = math.isfinite(worst)
        return {
            "correct": finite and worst <= limit["max_error"] and ratio >= limit["matched_ratio"],
            "max_abs_error": worst if finite else None,
            "matched_ratio": ratio,
            "nan_count": nan_count,
            "reference_error": limit["own"],
        }


def _mean(truth: torch.Tensor) -> float:
    return int(truth.count_nonzero()) / truth.numel() if truth.numel() else 1.0


def _whole(got: torch.Tensor, want: torch.Tensor, near: torch.Tensor | None, limit: Job) -> Job:
    """Judge integers: the oracle's value or the reference's own, or within what is allowed."""
    equal = got == want.to(got.dtype)
    if near is not None:
        equal |= got == near.to(got.dtype)
    off = torch.where(equal, 0.0, (got.to(torch.float64) - want.to(torch.float64)).abs())
    within = equal | (off <= limit["atol"] + limit["rtol"] * want.to(torch.float64).abs())
    worst = float(off.max()) if off.numel() else 0.0
    ratio = _mean(within)
    return {
        # Two large numbers may differ and have the same fp64.
        "correct": ratio >= limit["matched_ratio"] and worst <= limit["max_error"],
        "max_abs_error": max(worst, float(not bool(equal.all()))),
        "matched_ratio": ratio,
        "nan_count": 0,
        "reference_error": limit["own"],
    }


def _whole_limits(want: torch.Tensor, near: torch.Tensor, given: Job | None) -> Job:
    """Return how far off integers may be: not at all, where rounding decides none of them.

    Where it does, for the reference itself, it decides as many for an honest kernel, a few times
    over, and by as much.
    """
    off = (near.to(torch.float64) - want.to(torch.float64)).abs()
    own = float(off.max()) if off.numel() else 0.0
    if given is not None:
        return {**given, "own": own}
    share = min(_MOST_ROUNDED, _OWN_ERROR_ALLOWANCE * (1.0 - _mean(off == 0)))
    return {"atol": -1.0, "rtol": 0.0, "matched_ratio": 1.0 - share, "max_error": own, "own": own}


def _nudged(inputs: Tensors, seed: int, dtype: torch.dtype) -> Tensors:
    """Return inputs of which each value is one unit in its last place larger or smaller."""
    found = []
    for at, tensor in enumerate(inputs):
        if tensor.is_floating_point():
            draw = torch.Generator(device=tensor.device).manual_seed(_NUDGES * at + seed)
            unit = torch.finfo(tensor.dtype).eps
            tensor = tensor.to(dtype, copy=True)
            for part in tensor.view(-1).split(_AT_ONCE):  # memory may just hold the copy
                up = torch.empty(part.shape, dtype=torch.bool, device=part.device)
                up.bernoulli_(0.5, generator=draw)
                part.mul_(torch.where(up, part.new_tensor(1 + unit), part.new_tensor(1 - unit)))
        found.append(tensor)
    return found


def limits(
    dtype: str, want: torch.Tensor, near: torch.Tensor, given: Job | None, moved: float = 0.0
) -> Job:
    """Return how far off an element may be: ``{"atol", "rtol", "matched_ratio", "max_error"}``.

    What a kernel.yaml says holds, as long as it says it. Otherwise the yardstick is the reference
    itself: what it loses by computing in the run's own dtype, eight times over, and some units in
    the last place, of the outputs or of the inputs (``moved``). ``atol`` follows the outputs' root
    mean square, so that zeros never pass.
    """
    if not want.is_floating_point():
        return _whole_limits(want, near, given)
    error = (near.to(want.dtype) - want).abs_()
    inside = want
    if not math.isfinite(float(error.sum())):
        finite = want.isfinite() & error.isfinite()
        error, inside = error[finite], want[finite]
    own = float(error.max()) if error.numel() else 0.0
    if given is not None:
        return {**given, "own": own}
    scale = float(inside.square().mean().sqrt()) if inside.numel() else 0.0
    unit = torch.finfo(getattr(torch, dtype)).eps
    if getattr(torch, dtype) == want.dtype:
        unit *= _UNSEEN_ALLOWANCE
    allowance = _EPSILON_ALLOWANCE if dtype not in _HALF_WORD else 4.0
    mean = float(error.square().mean().sqrt()) if error.numel() else 0.0
    largest = float(inside.abs().max()) if inside.numel() else 0.0
    atol = allowance * max(unit * scale, moved) + _OWN_ERROR_ALLOWANCE * mean
    most = _OWN_ERROR_ALLOWANCE * own + allowance * unit * largest
    return {
        "atol": atol,
        "rtol": allowance * unit,
        "matched_ratio": 0.999,
        "max_error": max(most, atol),
        "own": own,
    }


def _wrong(
    want: torch.Tensor, given: Sequence[torch.Tensor], swapped: Sequence[torch.Tensor]
) -> list[tuple[str, torch.Tensor]]:
    """Return outputs that no right kernel gives, and lazy kernels have been seen to give."""
    flat = want.reshape(-1)
    wrong = [
        ("all zeros", torch.zeros_like(want)),
        ("all ones", torch.ones_like(want)),
        ("the right values one place on", flat.roll(1).reshape(want.shape)),
        ("the right values backwards", flat.flip(0).reshape(want.shape)),
    ]
    if want.is_floating_point():
        wrong.append(("the mean everywhere", want.mean().expand_as(want)))
        wrong.append(("NaN everywhere", torch.full_like(want, float("nan"))))
    wrong += [("a copy of an input", g.to(want.dtype)) for g in given if g.shape == want.shape]
    wrong += [("two inputs exchanged", other) for other in swapped]
    return [(name, tensor) for name, tensor in wrong if not torch.equal(tensor, want)]
