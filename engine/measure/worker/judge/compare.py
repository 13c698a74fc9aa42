"""Compares outputs with the reference, within limits that follow from the reference's own error."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from kernelkb.measure.worker.judge.error_limits import ErrorLimits, error_limits, true_share
from kernelkb.measure.worker.judge.inputs import KernelCase, Tensors
from kernelkb.measure.worker.shared.memory import release_torch_cache
from kernelkb.measure.worker.shared.messages.judge_jobs import OutputComparison
from kernelkb.measure.worker.shared.messages.specs import ArraySpec, Tolerances

_FEW_OUTPUTS = 4096
"""With fewer elements the reference's own error may be zero by chance: inputs are perturbed too."""
_PERTURBATIONS = 4
_CHUNK_ELEMENTS = 2**24
"""Elements perturbed at a time: memory may hold just one copy of the inputs."""
_MAX_SENSITIVITY_RATIO = 0.01
"""A larger change, relative to the outputs' root mean square, is a rounding step of the task."""
_ORACLE_BYTES = 8
_ORACLE_COPIES = 4
"""Copies of all arrays in fp64 that must fit into free GPU memory for an fp64 oracle."""


def oracle_dtype(case: KernelCase) -> torch.dtype:
    """Return the dtype of the oracle: fp64 where memory allows it, else fp32."""
    specs = (*case.input_specs, *case.output_specs)
    needed_bytes = sum(map(_count_elements, specs)) * _ORACLE_BYTES * _ORACLE_COPIES
    if case.target == "cpu" or needed_bytes <= torch.cuda.mem_get_info()[0]:
        return torch.float64
    return torch.float32


def _count_elements(spec: ArraySpec) -> int:
    return math.prod(spec["shape"])


class ReferenceOutputs:
    """The correct outputs for some inputs, and how far off a correct kernel may be.

    Attributes:
        dtype: In which the oracle was computed; None: in the reference's own types.
    """

    def __init__(self, case: KernelCase, inputs: Tensors, tolerances: Tolerances) -> None:
        """Compute them.

        Args:
            case: Shapes and reference.
            inputs: One tensor for each of ``case.input_specs``, on the case's device.
            tolerances: The kernel's own, by dtype.

        Raises:
            torch.OutOfMemoryError: Not even an fp32 oracle fits.
        """
        self._case, self._inputs = case, inputs
        self.dtype: torch.dtype | None = oracle_dtype(case)
        self._oracle_outputs: Tensors = []
        is_retry = False
        try:
            self._compute(tolerances)
        except torch.OutOfMemoryError:
            is_retry = self.dtype == torch.float64
            if not is_retry:
                raise
        if is_retry:  # outside of the handler, whose traceback keeps the first try's arrays alive
            self.dtype, self._oracle_outputs = torch.float32, []
            release_torch_cache()
            self._compute(tolerances)
        release_torch_cache()  # the candidate runs next and may need as much memory

    def _compute(self, tolerances: Tolerances) -> None:
        case, inputs = self._case, self._inputs
        native_outputs = case.run_reference(inputs, None)
        try:
            self._oracle_outputs = case.run_reference(inputs, self.dtype)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            # It creates tensors of a fixed dtype, which torch does not mix with wider ones.
            self.dtype, self._oracle_outputs = None, native_outputs
        self._native_outputs: list[torch.Tensor | None] = [
            output if not output.is_floating_point() else None for output in native_outputs
        ]
        self._limits = [
            error_limits(spec["dtype"], oracle, native, tolerances.get(spec["dtype"]), sensitivity)
            for spec, oracle, native, sensitivity in zip(
                case.output_specs,
                self._oracle_outputs,
                native_outputs,
                self._ulp_sensitivity(tolerances),
                strict=True,
            )
        ]

    def _ulp_sensitivity(self, tolerances: Tolerances) -> list[float]:
        """Return the largest change of each output when every input changes by 1 ulp.

        Differences that a 1-ulp change of the inputs can cause are within tolerance. This matters
        for outputs of few elements, whose reference error may be zero by chance or which may cancel
        out; others get 0, as do outputs with tolerances of their own.
        """
        sensitivity = [0.0] * len(self._oracle_outputs)
        has_tolerances = all(spec["dtype"] in tolerances for spec in self._case.output_specs)
        has_many = max(output.numel() for output in self._oracle_outputs) > _FEW_OUTPUTS
        if has_tolerances or has_many or self.dtype is None:
            return sensitivity
        for seed in range(_PERTURBATIONS):
            perturbed = _perturb_inputs(self._inputs, seed, self.dtype)
            outputs = self._case.run_reference(perturbed, self.dtype, preserve_inputs=False)
            del perturbed
            for index, (output, oracle) in enumerate(
                zip(outputs, self._oracle_outputs, strict=True)
            ):
                if oracle.is_floating_point() and oracle.numel():
                    change = (output - oracle).abs()
                    # A larger change is a value that the task rounds to a step.
                    bound = _MAX_SENSITIVITY_RATIO * oracle.square().mean().sqrt()
                    smooth = change[change <= bound]
                    largest = float(smooth.max()) if smooth.numel() else 0.0
                    sensitivity[index] = max(sensitivity[index], largest)
        return sensitivity

    def compare(self, outputs: Tensors) -> OutputComparison:
        """Compare outputs, one tensor per output array; return the worst comparison."""
        comparisons = [self._compare_output(index, output) for index, output in enumerate(outputs)]
        return min(comparisons, key=lambda c: (c["correct"], c["matched_ratio"]))

    def run_selftest(self) -> tuple[list[str], list[str]]:
        """Compare outputs that are wrong on purpose; return names of the accepted and rejected."""
        accepted: set[str] = set()
        rejected: set[str] = set()
        for index, oracle in enumerate(self._oracle_outputs):
            swapped = self._compute_swapped_outputs(index)
            for name, output in _make_wrong_outputs(oracle, self._inputs, swapped):
                is_accepted = self._compare_output(index, output)["correct"]
                (accepted if is_accepted else rejected).add(name)
        return sorted(accepted), sorted(rejected - accepted)

    def _compute_swapped_outputs(self, index: int) -> list[torch.Tensor]:
        """Return one output for each exchange of two inputs that can stand for each other."""
        outputs: list[torch.Tensor] = []
        for first in range(len(self._inputs)):
            for second in range(first + 1, len(self._inputs)):
                if self._can_exchange(first, second):
                    swapped = list(self._inputs)
                    swapped[first], swapped[second] = swapped[second], swapped[first]
                    outputs.append(self._case.run_reference(swapped, self.dtype)[index])
        return outputs

    def _can_exchange(self, first: int, second: int) -> bool:
        """Return whether two inputs have one shape, one dtype and, as integers, one range.

        Integers may be indices, and one outside of its range stops a GPU's reference for good.
        """
        left, right = self._inputs[first], self._inputs[second]
        if left.shape != right.shape or left.dtype != right.dtype:
            return False
        if left.is_floating_point() or not left.numel() or self._case.draws_alike(first, second):
            return True
        return bool((left.min() == right.min()) & (left.max() == right.max()))

    def _compare_output(self, index: int, output: torch.Tensor) -> OutputComparison:
        oracle, limits = self._oracle_outputs[index], self._limits[index]
        if not oracle.is_floating_point():
            return _compare_integers(output, oracle, self._native_outputs[index], limits)
        error = (output.to(oracle.dtype) - oracle).abs_()
        nan_count = 0
        if not math.isfinite(float(error.sum())):
            equal = (oracle == output.to(oracle.dtype)) | (oracle.isnan() & output.isnan())
            error = torch.where(equal, 0.0, error)  # the difference of equal infinities is NaN
            nan_count = int((output.isnan() & ~oracle.isnan()).sum())
        ratio = true_share(error <= limits.atol + limits.rtol * oracle.abs())
        worst = float(error.max()) if error.numel() else 0.0
        is_finite = math.isfinite(worst)
        return {
            "correct": is_finite and worst <= limits.max_error and ratio >= limits.matched_ratio,
            "max_abs_error": worst if is_finite else None,
            "matched_ratio": ratio,
            "nan_count": nan_count,
            "reference_error": limits.reference_error,
        }


def _compare_integers(
    output: torch.Tensor, oracle: torch.Tensor, native: torch.Tensor | None, limits: ErrorLimits
) -> OutputComparison:
    """Compare integers: equal to the oracle or to the reference's own output, or within limits."""
    equal = output == oracle.to(output.dtype)
    if native is not None:
        equal |= output == native.to(output.dtype)
    error = torch.where(equal, 0.0, (output.to(torch.float64) - oracle.to(torch.float64)).abs())
    within = equal | (error <= limits.atol + limits.rtol * oracle.to(torch.float64).abs())
    worst = float(error.max()) if error.numel() else 0.0
    ratio = true_share(within)
    return {
        "correct": ratio >= limits.matched_ratio and worst <= limits.max_error,
        # Large integers may differ although their fp64 values are equal: then report 1, not 0.
        "max_abs_error": max(worst, float(not bool(equal.all()))),
        "matched_ratio": ratio,
        "nan_count": 0,
        "reference_error": limits.reference_error,
    }


def _perturb_inputs(inputs: Tensors, seed: int, dtype: torch.dtype) -> Tensors:
    """Return floating-point inputs in ``dtype``, each value changed by ±1 ulp of its own dtype."""
    perturbed = []
    for index, tensor in enumerate(inputs):
        if tensor.is_floating_point():
            generator = torch.Generator(device=tensor.device)
            generator.manual_seed(_PERTURBATIONS * index + seed)
            ulp = torch.finfo(tensor.dtype).eps
            tensor = tensor.to(dtype, copy=True)
            for chunk in tensor.view(-1).split(_CHUNK_ELEMENTS):
                up = torch.empty(chunk.shape, dtype=torch.bool, device=chunk.device)
                up.bernoulli_(0.5, generator=generator)
                chunk.mul_(torch.where(up, chunk.new_tensor(1 + ulp), chunk.new_tensor(1 - ulp)))
        perturbed.append(tensor)
    return perturbed


def _make_wrong_outputs(
    oracle: torch.Tensor, inputs: Sequence[torch.Tensor], swapped: Sequence[torch.Tensor]
) -> list[tuple[str, torch.Tensor]]:
    """Return names and outputs that faulty kernels have been seen to produce."""
    flat = oracle.reshape(-1)
    wrong = [
        ("all zeros", torch.zeros_like(oracle)),
        ("all ones", torch.ones_like(oracle)),
        ("the correct values shifted by one", flat.roll(1).reshape(oracle.shape)),
        ("the correct values reversed", flat.flip(0).reshape(oracle.shape)),
    ]
    if oracle.is_floating_point():
        wrong.append(("the mean everywhere", oracle.mean().expand_as(oracle)))
        wrong.append(("NaN everywhere", torch.full_like(oracle, float("nan"))))
    wrong += [("a copy of an input", i.to(oracle.dtype)) for i in inputs if i.shape == oracle.shape]
    wrong += [("two inputs exchanged", output) for output in swapped]
    return [(name, tensor) for name, tensor in wrong if not torch.equal(tensor, oracle)]
