"""Compare outputs with the reference. The candidate's code never runs in this process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from kernelkb.measure.worker.judge.inputs import KernelCase, Tensors
from kernelkb.measure.worker.shared.memory import release_torch_cache

Job = dict[str, Any]

_EPSILON_ALLOWANCE = 32.0
"""How many units in the last place of the dtype an honest kernel may be off by another order of
sums, beside the reference's own error."""
_REFERENCE_ERROR_FACTOR = 8.0
_NARROW_ORACLE_FACTOR = 8.0
"""How much more where memory forbids a wider oracle: the reference's own error is not seen then."""
_FEW_OUTPUTS = 4096
_PERTURBATIONS = 4
_CHUNK_ELEMENTS = 2**24
_MAX_SENSITIVITY_RATIO = 0.01
_MAX_ROUNDED_SHARE = 0.05
_NARROW_DTYPES = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def oracle_dtype(case: KernelCase) -> torch.dtype:
    """Return fp64 where eight times the arrays fit into memory, else fp32."""
    wide = (
        sum(t.numel() for t in (_meta_tensor(s) for s in (*case.input_specs, *case.output_specs)))
        * 8
        * 4
    )
    if case.target == "cpu" or wide <= torch.cuda.mem_get_info()[0]:
        return torch.float64
    return torch.float32


def _meta_tensor(spec: Job) -> torch.Tensor:
    return torch.empty(tuple(spec["shape"]), device="meta")


class ReferenceOutputs:
    """The right outputs for some inputs, and how far from them an honest kernel may be."""

    def __init__(self, case: KernelCase, inputs: Tensors, tolerances: Job) -> None:
        self._case, self._inputs = case, inputs
        self.dtype: torch.dtype | None = oracle_dtype(case)
        self._oracle_outputs: Tensors = []
        narrower = False
        try:
            self._compute(tolerances)
        except torch.OutOfMemoryError:
            narrower = self.dtype == torch.float64
            if not narrower:
                raise
        if narrower:  # outside of the handler, which holds on to every array of the failed try
            self.dtype, self._oracle_outputs = torch.float32, []
            release_torch_cache()
            self._compute(tolerances)
        release_torch_cache()  # it is the candidate's turn, and what it needs may be as much

    def _compute(self, tolerances: Job) -> None:
        task, inputs = self._case, self._inputs
        near = task.run_reference(inputs, None)
        try:
            self._oracle_outputs = task.run_reference(inputs, self.dtype)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            # It makes tensors of its own type inside, which meet wider ones: as it stands, then.
            self.dtype, self._oracle_outputs = None, near
        self._native_outputs: list[torch.Tensor | None] = [
            one if not one.is_floating_point() else None for one in near
        ]
        self._limits = [
            error_limits(spec["dtype"], want, one, tolerances.get(spec["dtype"]), moved)
            for spec, want, one, moved in zip(
                task.output_specs,
                self._oracle_outputs,
                near,
                self._ulp_sensitivity(tolerances),
                strict=True,
            )
        ]

    def _ulp_sensitivity(self, tolerances: Job) -> list[float]:
        """Return how far each output moves when every input moves by one unit in its last place.

        The reference's own error says what an honest kernel may lose where there are many outputs.
        Of a few it may happen to be nothing, and they may happen to cancel out to nothing. What a
        last place of the inputs decides, no kernel can be asked for.
        """
        most = [0.0] * len(self._oracle_outputs)
        given = all(spec["dtype"] in tolerances for spec in self._case.output_specs)
        many = max(want.numel() for want in self._oracle_outputs) > _FEW_OUTPUTS
        if given or many or self.dtype is None:
            return most
        for seed in range(_PERTURBATIONS):
            nudged = _perturb_inputs(self._inputs, seed, self.dtype)
            made = self._case.run_reference(nudged, self.dtype, preserve_inputs=False)
            del nudged
            for at, (one, want) in enumerate(zip(made, self._oracle_outputs, strict=True)):
                if want.is_floating_point() and want.numel():
                    far = (one - want).abs()
                    # What jumps was rounded to a step by the task, and says nothing.
                    near = far[far <= _MAX_SENSITIVITY_RATIO * want.square().mean().sqrt()]
                    most[at] = max(most[at], float(near.max()) if near.numel() else 0.0)
        return most

    def compare(self, outputs: Tensors) -> Job:
        """Judge outputs; the worst of several outputs speaks for all."""
        verdicts = [self._compare_output(at, tensor) for at, tensor in enumerate(outputs)]
        return min(verdicts, key=lambda v: (v["correct"], v["matched_ratio"]))

    def run_selftest(self) -> tuple[list[str], list[str]]:
        """Return which wrong answers would pass, and which would not."""
        accepted: set[str] = set()
        refused: set[str] = set()
        for at, want in enumerate(self._oracle_outputs):
            for name, wrong in _make_wrong_outputs(
                want, self._inputs, self._compute_swapped_outputs(at)
            ):
                (accepted if self._compare_output(at, wrong)["correct"] else refused).add(name)
        return sorted(accepted), sorted(refused - accepted)

    def _compute_swapped_outputs(self, at: int) -> list[torch.Tensor]:
        """Return the answers with two inputs of one shape exchanged, where that changes them."""
        found: list[torch.Tensor] = []
        for first in range(len(self._inputs)):
            for second in range(first + 1, len(self._inputs)):
                one, two = self._inputs[first], self._inputs[second]
                if one.shape == two.shape and one.dtype == two.dtype:
                    other = list(self._inputs)
                    other[first], other[second] = two, one
                    found.append(self._case.run_reference(other, self.dtype)[at])
        return found

    def _compare_output(self, at: int, got: torch.Tensor) -> Job:
        want, limit = self._oracle_outputs[at], self._limits[at]
        if not want.is_floating_point():
            return _compare_integers(got, want, self._native_outputs[at], limit)
        error = (got.to(want.dtype) - want).abs_()
        nan_count = 0
        if not math.isfinite(float(error.sum())):
            both = (want == got.to(want.dtype)) | (want.isnan() & got.isnan())
            error = torch.where(both, 0.0, error)  # equal infinities differ by NaN
            nan_count = int((got.isnan() & ~want.isnan()).sum())
        ratio = _true_share(error <= limit["atol"] + limit["rtol"] * want.abs())
        worst = float(error.max()) if error.numel() else 0.0
        finite = math.isfinite(worst)
        return {
            "correct": finite and worst <= limit["max_error"] and ratio >= limit["matched_ratio"],
            "max_abs_error": worst if finite else None,
            "matched_ratio": ratio,
            "nan_count": nan_count,
            "reference_error": limit["own"],
        }


def _true_share(mask: torch.Tensor) -> float:
    return int(mask.count_nonzero()) / mask.numel() if mask.numel() else 1.0


def _compare_integers(
    got: torch.Tensor, oracle: torch.Tensor, native: torch.Tensor | None, limit: Job
) -> Job:
    """Judge integers: the oracle's value or the reference's own, or within what is allowed."""
    equal = got == oracle.to(got.dtype)
    if native is not None:
        equal |= got == native.to(got.dtype)
    off = torch.where(equal, 0.0, (got.to(torch.float64) - oracle.to(torch.float64)).abs())
    within = equal | (off <= limit["atol"] + limit["rtol"] * oracle.to(torch.float64).abs())
    worst = float(off.max()) if off.numel() else 0.0
    ratio = _true_share(within)
    return {
        # Two large numbers may differ and have the same fp64.
        "correct": ratio >= limit["matched_ratio"] and worst <= limit["max_error"],
        "max_abs_error": max(worst, float(not bool(equal.all()))),
        "matched_ratio": ratio,
        "nan_count": 0,
        "reference_error": limit["own"],
    }


def _integer_limits(oracle: torch.Tensor, native: torch.Tensor, tolerance: Job | None) -> Job:
    """Return how far off integers may be: not at all, where rounding decides none of them.

    Where it does, for the reference itself, it decides as many for an honest kernel, a few times
    over, and by as much.
    """
    off = (native.to(torch.float64) - oracle.to(torch.float64)).abs()
    own = float(off.max()) if off.numel() else 0.0
    if tolerance is not None:
        return {**tolerance, "own": own}
    share = min(_MAX_ROUNDED_SHARE, _REFERENCE_ERROR_FACTOR * (1.0 - _true_share(off == 0)))
    return {"atol": -1.0, "rtol": 0.0, "matched_ratio": 1.0 - share, "max_error": own, "own": own}


def _perturb_inputs(inputs: Tensors, seed: int, dtype: torch.dtype) -> Tensors:
    """Return inputs of which each value is one unit in its last place larger or smaller."""
    found = []
    for at, tensor in enumerate(inputs):
        if tensor.is_floating_point():
            draw = torch.Generator(device=tensor.device).manual_seed(_PERTURBATIONS * at + seed)
            unit = torch.finfo(tensor.dtype).eps
            tensor = tensor.to(dtype, copy=True)
            for part in tensor.view(-1).split(_CHUNK_ELEMENTS):  # memory may just hold the copy
                up = torch.empty(part.shape, dtype=torch.bool, device=part.device)
                up.bernoulli_(0.5, generator=draw)
                part.mul_(torch.where(up, part.new_tensor(1 + unit), part.new_tensor(1 - unit)))
        found.append(tensor)
    return found


def error_limits(
    dtype: str,
    oracle: torch.Tensor,
    native: torch.Tensor,
    tolerance: Job | None,
    sensitivity: float = 0.0,
) -> Job:
    """Return how far off an element may be: ``{"atol", "rtol", "matched_ratio", "max_error"}``.

    What a kernel.yaml says holds, as long as it says it. Otherwise the yardstick is the reference
    itself: what it loses by computing in the run's own dtype, eight times over, and some units in
    the last place, of the outputs or of the inputs (``sensitivity``). ``atol`` follows the outputs'
    root mean square, so that zeros never pass.
    """
    if not oracle.is_floating_point():
        return _integer_limits(oracle, native, tolerance)
    error = (native.to(oracle.dtype) - oracle).abs_()
    inside = oracle
    if not math.isfinite(float(error.sum())):
        finite = oracle.isfinite() & error.isfinite()
        error, inside = error[finite], oracle[finite]
    own = float(error.max()) if error.numel() else 0.0
    if tolerance is not None:
        return {**tolerance, "own": own}
    scale = float(inside.square().mean().sqrt()) if inside.numel() else 0.0
    unit = torch.finfo(getattr(torch, dtype)).eps
    if getattr(torch, dtype) == oracle.dtype:
        unit *= _NARROW_ORACLE_FACTOR
    allowance = _EPSILON_ALLOWANCE if dtype not in _NARROW_DTYPES else 4.0
    mean = float(error.square().mean().sqrt()) if error.numel() else 0.0
    largest = float(inside.abs().max()) if inside.numel() else 0.0
    atol = allowance * max(unit * scale, sensitivity) + _REFERENCE_ERROR_FACTOR * mean
    most = _REFERENCE_ERROR_FACTOR * own + allowance * unit * largest
    return {
        "atol": atol,
        "rtol": allowance * unit,
        "matched_ratio": 0.999,
        "max_error": max(most, atol),
        "own": own,
    }


def _make_wrong_outputs(
    oracle: torch.Tensor, inputs: Sequence[torch.Tensor], swapped: Sequence[torch.Tensor]
) -> list[tuple[str, torch.Tensor]]:
    """Return outputs that no right kernel gives, and lazy kernels have been seen to give."""
    flat = oracle.reshape(-1)
    wrong = [
        ("all zeros", torch.zeros_like(oracle)),
        ("all ones", torch.ones_like(oracle)),
        ("the right values one place on", flat.roll(1).reshape(oracle.shape)),
        ("the right values backwards", flat.flip(0).reshape(oracle.shape)),
    ]
    if oracle.is_floating_point():
        wrong.append(("the mean everywhere", oracle.mean().expand_as(oracle)))
        wrong.append(("NaN everywhere", torch.full_like(oracle, float("nan"))))
    wrong += [("a copy of an input", g.to(oracle.dtype)) for g in inputs if g.shape == oracle.shape]
    wrong += [("two inputs exchanged", other) for other in swapped]
    return [(name, tensor) for name, tensor in wrong if not torch.equal(tensor, oracle)]
