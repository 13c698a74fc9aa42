"""Compares outputs with the oracle, and proves that wrong outputs are rejected."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import torch

from kernelkb.measure.worker.judge.compare.error_limits import (
    ErrorLimits,
    OutputErrors,
    ReferenceErrors,
    find_wrong,
)
from kernelkb.measure.worker.judge.compare.error_shape import describe_error_shape
from kernelkb.measure.worker.judge.compare.oracle import (
    Oracle,
    OraclePiece,
    is_nearly_equal,
    take_rows,
    truncate_inputs,
)
from kernelkb.measure.worker.judge.compare.wrong_values import Rerun, WrongOutput
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, Tensors, find_poison
from kernelkb.measure.worker.judge.inputs.memory_plan import (
    CHUNK_ELEMENTS,
    MeanSquare,
    split_alike,
    widen,
)
from kernelkb.measure.worker.judge.inputs.references import (
    computes_indices,
    convolves,
    multiplies_matrices,
    orders_elements,
    rounds_off,
)
from kernelkb.measure.worker.shared.fp32_precision import fp32_precision
from kernelkb.measure.worker.shared.memory import release_torch_cache
from kernelkb.measure.worker.shared.messages.jobs import OutputComparison
from kernelkb.measure.worker.shared.messages.specs import ArraySpec, Precision, Tolerances

Errors = tuple[float, ...]
"""Of one or several calls: root mean square error of each output, relative to the output's own."""
_SAME_FACTOR = 2.0
"""One bit: what rounding inputs to TF32 gains over truncating them, as tensor cores do."""
_BELOW_TF32_FACTOR = 4.0
"""bf16 has 8 times the error of TF32. fp16 has the same, but not the range: where a candidate is as
exact as products of fp32's range, torch in fp16 is no equal. bf16 has that range."""
_MIN_ERROR = 2.0**-24
"""Rounding to fp32 alone; smaller errors are equal."""

_ADDED_ERROR, _ADDED_SHARE = 1e-2, 0.9
_MIN_ROWS = 2
_CLEAR_FACTOR = 2.0
"""A candidate whose errors are at most this many times torch's own is as exact as torch."""
_ROUNDING = {d: 64 * torch.finfo(d).eps for d in (torch.float64, torch.float32)}
"""By how much of the root mean square an output differs at most that is right but for the order of
its sums. In types of 16 bits so many digits are an error that tolerances have to tell."""
_SMALL_FACTOR = 2.0
"""Small elements are tested where they are this many times more than may be wrong."""


_FEW_OUTPUTS = 4096
"""With fewer elements the reference's own error may be zero by chance: inputs are perturbed too."""
_PERTURBATIONS = 4
_MAX_SENSITIVITY_RATIO = 0.01
"""A larger change, relative to the outputs' root mean square, is a rounding step of the task."""


_TF32_ERRORS = (2**-16, 2**-8)
"""Of products in TF32, relative and root mean square: 3e-4 for one; more where steps follow."""


class ReferenceOutputs:
    """The correct outputs for some inputs, and how far off a correct kernel may be.

    Attributes:
        dtype: In which the oracle was computed; None: in the reference's own types.
        observer: Called with this and each outputs that ``compare`` has compared.
    """

    observer: Callable[[ReferenceOutputs, Tensors], None] | None = None

    def __init__(
        self, case: KernelCase, inputs: Tensors, tolerances: Tolerances, *, sampled: bool = False
    ) -> None:
        """Compute them.

        Args:
            case: Shapes and reference.
            inputs: One tensor for each of ``case.input_specs``, on the case's device.
            tolerances: The kernel's own, by dtype.
            sampled: Whether a quarter of the rows suffices; see ``Oracle``.

        Raises:
            torch.OutOfMemoryError: Not even an fp32 oracle fits.
            UnsupportedHost: The same, by the case's memory plan.
        """
        self._case, self._inputs = case, inputs
        self._oracle = Oracle(case, inputs, sampled=sampled)
        self.dtype = self._oracle.dtype
        errors = self._collect_reference_errors()
        self._oracle.drop_native()
        self._operations = case.list_operations(take_rows(case, inputs, self._oracle.pieces[0]))
        sensitivity = self._ulp_sensitivity(tolerances)
        self._limits = self._make_limits(errors, tolerances, sensitivity)
        if case.admits_tf32(self._operations):
            truncated = self._make_limits(self._collect_tf32_errors(), tolerances, sensitivity)
            pairs = zip(self._limits, truncated, strict=True)
            self._limits = [max(pair, key=lambda limits: limits.atol) for pair in pairs]
        if orders_elements(self._operations):
            self._oracle.settle_ties()
        release_torch_cache()  # the candidate runs next and may need as much memory

    def _collect_reference_errors(self) -> list[ReferenceErrors]:
        errors = [ReferenceErrors(spec["dtype"]) for spec in self._case.output_specs]
        for piece in self._oracle.iter_pieces(with_native=True):
            for own, oracle, native in zip(errors, piece.outputs, piece.native, strict=True):
                if native is not None:
                    for part in split_alike(oracle, native):
                        own.add(*part)
        return errors

    def _collect_tf32_errors(self) -> list[ReferenceErrors]:
        """Collect errors of a reference whose inputs lost digits, as in products that do not round.

        Limits are 8 times these errors, and should be twice those of inputs cut to TF32.
        """
        errors = [ReferenceErrors(spec["dtype"]) for spec in self._case.output_specs]
        for piece in self._oracle.iter_pieces():
            inputs = truncate_inputs(take_rows(self._case, self._inputs, piece.rows))
            with fp32_precision("fp32"):
                outputs = self._case.run_reference(inputs, None)
            for own, oracle, output in zip(errors, piece.outputs, outputs, strict=True):
                for part in split_alike(oracle, output):
                    own.add(*part)
        return errors

    def _make_limits(
        self,
        errors: list[ReferenceErrors],
        tolerances: Tolerances,
        sensitivity: list[float],
    ) -> list[ErrorLimits]:
        has_convolution = convolves(self._operations)
        rounds = any(x.is_floating_point() for x in self._inputs) and rounds_off(self._operations)
        return [
            own.make_limits(
                tolerances.get(spec["dtype"]), change, convolves=has_convolution, rounds=rounds
            )
            for spec, own, change in zip(self._case.output_specs, errors, sensitivity, strict=True)
        ]

    def _ulp_sensitivity(self, tolerances: Tolerances) -> list[float]:
        """Return the largest change of each output when every input changes by 1 ulp.

        Differences that a 1-ulp change of the inputs can cause are within tolerance. This matters
        for outputs of few elements, whose reference error may be zero by chance or which may cancel
        out; others get 0, as do outputs with tolerances of their own.
        """
        specs = self._case.output_specs
        sensitivity = [0.0] * len(specs)
        has_tolerances = all(spec["dtype"] in tolerances for spec in specs)
        has_many = max(map(count_elements, specs)) > _FEW_OUTPUTS
        if has_tolerances or has_many or self.dtype is None:
            return sensitivity
        oracles = self._oracle.read_all()
        for seed in range(_PERTURBATIONS):
            outputs = self._oracle.run_perturbed(seed)
            for index, (output, oracle) in enumerate(zip(outputs, oracles, strict=True)):
                if oracle.is_floating_point() and oracle.numel():
                    change = (output - oracle).abs()
                    # A larger change is a value that the task rounds to a step.
                    bound = _MAX_SENSITIVITY_RATIO * widen(oracle).square().mean().sqrt()
                    smooth = change[change <= bound]
                    largest = float(smooth.max()) if smooth.numel() else 0.0
                    sensitivity[index] = max(sensitivity[index], largest)
        return sensitivity

    def compare(self, outputs: Tensors) -> OutputComparison:
        """Compare outputs, one tensor per output array; return the worst comparison."""
        errors = [OutputErrors(limits) for limits in self._limits]
        for piece in self._oracle.iter_pieces():
            for own, output, oracle, native in zip(
                errors, outputs, piece.outputs, piece.native, strict=True
            ):
                _add_errors(own, output[piece.rows] if output.dim() else output, oracle, native)
        if self.observer is not None:
            self.observer(self, outputs)
        comparisons = [own.make_comparison() for own in errors]
        return min(comparisons, key=lambda c: (c["correct"], c["matched_ratio"]))

    def describe_wrong(self, outputs: Tensors) -> list[str]:
        """Return sentences on how wrong outputs differ, of the worst one; empty: nothing is known.

        Of a large output the first piece with wrong elements is looked at.
        """
        with suppress(Exception):  # the reference's own: the verdict stands without a description
            for is_relative in (False, True):
                for piece in self._oracle.iter_pieces():
                    index = self._find_worst(piece, outputs)
                    if found := self._describe_piece(piece, index, outputs, is_relative):
                        name = self._case.output_specs[index]["name"]
                        return [*found, f"in the output {name}"] if outputs[1:] else found
        return []

    def adds_to(self, first: Tensors, again: Tensors) -> bool:
        """Return whether a second call has added what is right to the outputs of the first."""
        piece = next(self._oracle.iter_pieces())
        for left, right, oracle in zip(first, again, piece.outputs, strict=True):
            rows = piece.rows if left.dim() else ...
            oracle = widen(oracle)
            added = right[rows].to(oracle.dtype) - left[rows].to(oracle.dtype)
            near = (added - oracle).abs() <= _ADDED_ERROR * (oracle.abs() + left[rows].abs())
            if float(near.double().mean()) < _ADDED_SHARE:
                return False
        return True

    def _find_worst(self, piece: OraclePiece, outputs: Tensors) -> int:
        comparisons = []
        for at, (limits, output) in enumerate(zip(self._limits, outputs, strict=True)):
            errors = OutputErrors(limits)
            own = output[piece.rows] if output.dim() else output
            _add_errors(errors, own, piece.outputs[at], piece.native[at])
            comparisons.append(errors.make_comparison())
        return min(
            range(len(outputs)),
            key=lambda at: (comparisons[at]["correct"], comparisons[at]["matched_ratio"]),
        )

    def _describe_piece(
        self, piece: OraclePiece, index: int, outputs: Tensors, is_relative: bool
    ) -> list[str]:
        limits, oracle, native = self._limits[index], piece.outputs[index], piece.native[index]
        output = outputs[index][piece.rows] if outputs[index].dim() else outputs[index]
        is_exact = native is None or oracle.is_floating_point()
        arrays = (output, oracle) if is_exact or native is None else (output, oracle, native)
        for own, right, *other in split_alike(*arrays):
            wrong = find_wrong(limits, own, right, *(other or [None]), is_relative=is_relative)
            if not bool(wrong.any()):
                continue
            inputs = take_rows(self._case, self._inputs, piece.rows)
            is_whole = own is output
            names = (spec["name"] for spec in self._case.input_specs)
            given = WrongOutput(
                output=own,
                oracle=right,
                wrong=wrong,
                atol=max(limits.atol, 0.0),
                rtol=limits.rtol,
                inputs=list(zip(names, inputs, strict=True)) if is_whole else [],
                rerun=self._make_rerun(index) if is_whole else None,
                is_poison=None if self._starts_filled(index) else find_poison(own.contiguous()),
            )
            return describe_error_shape(given)
        return []

    def _starts_filled(self, index: int) -> bool:
        return self._case.output_specs[index]["starts_as"] is not None

    def _make_rerun(self, index: int) -> Rerun | None:
        """Return how to run the reference on changed inputs; None where that is not safe."""
        is_index = self._case.target == "cuda" and computes_indices(self._operations)
        if self._case.is_recorded or self._case.plan.in_pieces or is_index:
            return None
        return lambda inputs: self._oracle.run(inputs)[index]

    def root_mean_squares(self) -> list[float]:
        """Return the root mean square of each output, over its finite elements."""
        sums = [MeanSquare() for _ in self._case.output_specs]
        for piece in self._oracle.iter_pieces():
            for own, oracle in zip(sums, piece.outputs, strict=True):
                for (part,) in split_alike(oracle):
                    own.add(part[part.isfinite()].double())
        return [own.root() for own in sums]

    def relative_errors(self, outputs: Tensors) -> list[float]:
        """Return the error of each output; see ``RelativeError``."""
        errors = [RelativeError() for _ in outputs]
        for piece in self._oracle.iter_pieces():
            for own, output, oracle in zip(errors, outputs, piece.outputs, strict=True):
                for part in split_alike(output[piece.rows] if output.dim() else output, oracle):
                    own.add(*part)
        return [own.ratio() for own in errors]

    def is_off_like_tf32(self, outputs: Tensors) -> bool:
        """Return whether wrong outputs are as far off as products of fp32 in TF32 are."""
        case = self._case
        operations = case.list_operations(self._inputs)
        if case.admits_tf32(operations) or not multiplies_matrices(operations):
            return False
        if any(spec["dtype"] != "float32" for spec in case.output_specs):
            return False
        low, high = _TF32_ERRORS
        return all(low < error < high for error in self.relative_errors(outputs))

    def run_reference(self, dtype: torch.dtype | None, precision: Precision | None) -> Tensors:
        """Return the reference's own outputs for the same inputs; see ``KernelCase``.

        Args:
            dtype: Weights and inputs are converted to it.
            precision: Of fp32 products; None: as its file and torch's defaults set it.
        """
        with fp32_precision(precision):
            return self._case.run_reference(self._inputs, dtype)

    def run_selftest(self) -> tuple[list[str], list[str]]:
        """Compare outputs that are wrong on purpose; return names of the accepted and rejected.

        Of large outputs those are some rows.
        """
        accepted: set[str] = set()
        rejected: set[str] = set()
        piece = next(self._oracle.iter_pieces())
        inputs = take_rows(self._case, self._inputs, piece.rows)
        for index, limits in enumerate(self._limits):
            oracle, native = _take_few_rows(piece, index)
            rows = slice(0, len(oracle)) if oracle.dim() else ...
            copied = [i[rows] for i in inputs if i.shape == piece.outputs[index].shape]
            swapped = (o[rows] for o in self._iter_swapped_outputs(inputs, index))
            for name, output in make_wrong_outputs(oracle, copied, swapped, limits.off_share):
                errors = OutputErrors(limits)
                _add_errors(errors, output, oracle, native)
                is_accepted = errors.make_comparison()["correct"]
                (accepted if is_accepted else rejected).add(name)
        return sorted(accepted), sorted(rejected - accepted)

    def _iter_swapped_outputs(self, inputs: Tensors, index: int) -> Iterator[torch.Tensor]:
        """Yield one output for each exchange of two inputs that can stand for each other."""
        if self._case.is_recorded:
            return
        for first in range(len(inputs)):
            for second in range(first + 1, len(inputs)):
                if self._can_exchange(first, second):
                    swapped = list(inputs)
                    swapped[first], swapped[second] = swapped[second], swapped[first]
                    yield self._oracle.run(swapped)[index]

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


def count_elements(spec: ArraySpec) -> int:
    """Return the number of elements of an array."""
    return math.prod(spec["shape"])


def _add_errors(
    errors: OutputErrors, output: torch.Tensor, oracle: torch.Tensor, native: torch.Tensor | None
) -> None:
    if native is None or oracle.is_floating_point():
        for part in split_alike(output, oracle):
            errors.add(*part)
    else:
        for part in split_alike(output, oracle, native):
            errors.add(*part)


def _take_few_rows(piece: OraclePiece, index: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return some rows of an output, as many as its wrong copies may take memory for."""
    oracle, native = piece.outputs[index], piece.native[index]
    if oracle.numel() <= CHUNK_ELEMENTS:
        return oracle, native
    rows = max(1, CHUNK_ELEMENTS * len(oracle) // oracle.numel())
    return oracle[:rows], None if native is None else native[:rows]


def make_wrong_outputs(
    oracle: torch.Tensor,
    inputs: Sequence[torch.Tensor],
    swapped: Iterable[torch.Tensor],
    off_share: float,
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield names and outputs, none of them equal to the correct one.

    Args:
        oracle: The correct output, any shape.
        inputs: Those of the reference's inputs that have the output's shape; one may have been
            copied.
        swapped: What the reference returns for inputs that are exchanged; where that is right but
            for rounding, as for a sum of them, it is no wrong answer.
        off_share: Share of elements that may be wrong relative to their own value.
    """
    for name, output in _iter_outputs(oracle, inputs, swapped, off_share):
        if not torch.equal(output, oracle):
            yield name, output


def _iter_outputs(
    oracle: torch.Tensor,
    inputs: Sequence[torch.Tensor],
    swapped: Iterable[torch.Tensor],
    off_share: float,
) -> Iterator[tuple[str, torch.Tensor]]:
    flat = oracle.reshape(-1)
    yield "all zeros", torch.zeros_like(oracle)
    yield "all ones", torch.ones_like(oracle)
    yield "the correct values shifted by one", flat.roll(1).reshape(oracle.shape)
    yield "the correct values reversed", flat.flip(0).reshape(oracle.shape)
    if oracle.is_floating_point():
        yield "the mean everywhere", oracle.mean().expand_as(oracle)
        yield "NaN everywhere", torch.full_like(oracle, float("nan"))
        if oracle.numel() and bool(oracle.isfinite().all()):
            yield from _iter_partly_wrong(oracle, off_share)
    for tensor in inputs:
        yield "a copy of an input", tensor.to(oracle.dtype)
    for output in swapped:
        if not is_nearly_equal(output, oracle, _ROUNDING):
            yield "two inputs exchanged", output


def _iter_partly_wrong(
    oracle: torch.Tensor, off_share: float
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield outputs that are right in most elements, or in the large ones."""
    largest_at = int(oracle.abs().argmax())
    one = oracle.reshape(-1).clone()
    one[largest_at] *= -1
    yield "one element of the wrong sign", one.reshape(oracle.shape)
    if oracle.dim() and oracle.shape[0] >= _MIN_ROWS:
        row = oracle.clone()
        row[largest_at // (oracle.numel() // oracle.shape[0])] = 0.0
        yield "one row of zeros", row
    is_small = (oracle.abs() < widen(oracle).square().mean().sqrt()) & (oracle != 0)
    if float(is_small.float().mean()) > _SMALL_FACTOR * off_share:
        yield "zero below the root mean square", oracle.masked_fill(is_small, 0.0)


class RelativeError:
    """Root mean square error of an output, relative to the oracle's, over several chunks."""

    def __init__(self) -> None:
        self._error = self._size = 0.0

    def add(self, output: torch.Tensor, oracle: torch.Tensor) -> None:
        """Add a chunk of both; integers, and what is not finite in the oracle, are left out."""
        if not oracle.is_floating_point():
            return
        oracle = widen(oracle)
        difference = output.to(oracle.dtype) - oracle
        is_finite = oracle.isfinite()
        if not bool(is_finite.all()):
            difference, oracle = difference[is_finite], oracle[is_finite]
        self._error = math.hypot(self._error, float(torch.linalg.vector_norm(difference)))
        self._size = math.hypot(self._size, float(torch.linalg.vector_norm(oracle)))

    def ratio(self) -> float:
        """Return the error; infinity where an output is not finite and the oracle is."""
        if self._error == 0.0:
            return 0.0
        return self._error / self._size if self._size and math.isfinite(self._error) else math.inf


def worst_errors(calls: Sequence[Errors]) -> Errors:
    """Return the largest error of each output over some calls; empty for no calls."""
    return tuple(max(column) for column in zip(*calls, strict=True))


def mean_errors(calls: Sequence[Errors]) -> Errors:
    """Return the root mean square error of each output over some calls; empty for no calls."""
    return tuple(
        math.sqrt(math.fsum(value * value for value in column) / len(column))
        for column in zip(*calls, strict=True)
    )


def is_less_exact(candidate: Errors, torch_errors: Errors, factor: float = _CLEAR_FACTOR) -> bool:
    """Return whether any output of the candidate has more than ``factor`` times torch's error."""
    return any(
        own > factor * max(other, _MIN_ERROR)
        for own, other in zip(candidate, torch_errors, strict=True)
    )


def choose_precisions(
    candidate: Errors, errors: Mapping[Precision, Errors], halves: Sequence[Precision]
) -> list[Precision]:
    """Return the precisions below torch's own at which torch is as exact as a candidate.

    Args:
        candidate: Its errors; it is less exact than torch at its own precision.
        errors: Torch's, by precision, most exact first.
        halves: Types of 16 bits, the preferred one first; one at most is returned, fp16 only where
            the candidate is clearly less exact than products of fewer digits make it.
    """
    admitted = [one for one, own in errors.items() if is_as_exact(own, candidate)]
    products = [own for one, own in errors.items() if one not in halves]
    if products and not is_less_exact(candidate, products[-1], _BELOW_TF32_FACTOR):
        admitted = [one for one in admitted if one != "fp16"]
    chosen = [one for one in halves if one in admitted][:1]
    return [one for one in admitted if one not in halves or one in chosen]


def is_as_exact(rival: Errors, candidate: Errors) -> bool:
    """Return whether every output of a rival is as exact as the candidate's, or more exact."""
    return all(
        error <= _SAME_FACTOR * max(own, _MIN_ERROR)
        for error, own in zip(rival, candidate, strict=True)
    )
